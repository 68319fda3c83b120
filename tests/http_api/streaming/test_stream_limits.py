"""How many streams, sockets and waits one caller may have open, and that each frees its place again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest
import websockets

from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations.identity.api_keys import revoke_key
from pyoco_server.operations.runs import query
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.http_api.live import Live, live
from tests.http_api.serving import submit
from tests.keyring import id_of, new_key
from tests.log_writing import Writer


@asynccontextmanager
async def limited(config: NatsBackendConfig, *, per_caller: int = 2, total: int = 9) -> AsyncIterator[Live]:
    async with live(replace(config, streams_per_caller=per_caller, streams_max=total)) as gateway:
        yield gateway


def under_way(gateway: Live) -> int:
    return gateway.gateway.streams.concurrency.under_way


async def opened(gateway: Live, path: str) -> asyncio.StreamWriter:
    """A connection that asks and reads nothing."""
    before = under_way(gateway)
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await until(lambda: under_way(gateway) == before + 1)
    return writer


PATHS = [
    "/stream?topic=runs",
    "/runs/stream",
    "/workers/stream",
    "/runs/{run}/watch",
    "/runs/{run}/logs/stream",
    "/jobs/{run}/logs/stream",
    "/executions/{run}/stream",
    "/runs/{run}?wait=20",
    "/runs/{run}/result?wait=20",
]


@pytest.mark.parametrize("path", PATHS)
async def test_one_stream_too_many_is_told_to_come_back(config: NatsBackendConfig, path: str) -> None:
    async with limited(config) as gateway:
        path = path.format(run=await submit(gateway.client))
        writers = [await opened(gateway, path) for _ in range(2)]
        refused = await gateway.client.get(path)
        assert refused.status_code == 429, refused.text
        assert "PYOCO_STREAMS_PER_CALLER" in refused.text
        assert int(refused.headers["retry-after"]) >= 1
        writers[0].transport.abort()
        await until(lambda: under_way(gateway) == 1)
        writers.append(await opened(gateway, path))
        metrics = (await gateway.client.get("/metrics")).text
        assert "pyoco_streams_open 2\n" in metrics
        assert "pyoco_streams_refused_total 1\n" in metrics


async def test_a_socket_is_counted_too(config: NatsBackendConfig) -> None:
    async with limited(config) as gateway:
        job = await submit(gateway.client)
        url = f"ws://127.0.0.1:{gateway.port}/jobs/{job}/ws"
        async with websockets.connect(url) as one, websockets.connect(url):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(url)
            assert refused.value.response.status_code == 429
            assert int(refused.value.response.headers["retry-after"]) >= 1
            await one.close()
            await until(lambda: under_way(gateway) == 1)
            async with websockets.connect(url):
                assert under_way(gateway) == 2


async def test_all_callers_together_have_a_limit(config: NatsBackendConfig) -> None:
    async with limited(config, per_caller=9, total=2) as gateway:
        writers = [await opened(gateway, "/stream?topic=runs") for _ in range(2)]
        refused = await gateway.client.get("/stream?topic=runs")
        assert refused.status_code == 429
        assert "PYOCO_STREAMS_MAX" in refused.text
        assert all(not one.is_closing() for one in writers)


async def test_a_reader_that_vanishes_in_the_middle_of_a_write_frees_its_place(
    config: NatsBackendConfig, store: Store
) -> None:
    async with limited(config) as gateway:
        run_id = await submit(gateway.client)
        writer = Writer(store, run_id)
        for _ in range(40):
            await writer.write(*["x" * 8_000] * 50)  # far more than any buffer between us takes
        reader = await opened(gateway, f"/runs/{run_id}/logs/stream")
        reader.transport.abort()
        await until(lambda: under_way(gateway) == 0)


async def test_what_is_refused_for_another_reason_takes_no_place(config: NatsBackendConfig) -> None:
    async with limited(config) as gateway:
        for _ in range(5):
            assert (await gateway.client.get("/runs/nothing/logs/stream")).status_code == 404
            assert (await gateway.client.get("/stream")).status_code == 422
            assert (await gateway.client.get("/runs/nothing?wait=5")).status_code == 404
        assert under_way(gateway) == 0


async def test_a_wait_ends_when_its_client_has_gone(config: NatsBackendConfig) -> None:
    async with limited(config) as gateway:
        run_id = await submit(gateway.client)
        with pytest.raises(httpx.ReadTimeout):
            await gateway.client.get(f"/runs/{run_id}?wait=30", timeout=0.1)
        await until(lambda: under_way(gateway) == 0, within_sec=5)


async def test_a_socket_whose_key_was_revoked_changes_nothing_any_more(
    config: NatsBackendConfig, store: Store
) -> None:
    key = await new_key(store, tenant_id="acme")
    async with live(replace(config, http_auth_mode="api_key")) as gateway:
        keys, headers = gateway.gateway.keys, {"X-API-Key": key}
        assert keys is not None
        answer = await gateway.client.post("/jobs", json={"parameters": {}}, headers=headers)
        job = answer.json()["id"]
        url = f"ws://127.0.0.1:{gateway.port}/jobs/{job}/ws"
        async with websockets.connect(url, additional_headers=headers) as socket:
            await socket.recv()
            await revoke_key(store, id_of(key))
            await until(lambda: (found := keys.table.find(id_of(key))) and found.record.is_revoked())
            await socket.send('{"type":"cancel"}')
            await socket.wait_closed()
            assert socket.close_code == 1008
        stored = await query.get_run(store, job, tenant_id="acme")
        assert not stored.run.is_terminal
        assert stored.run.cancel is None
