"""Requests that arrive while a gateway starts wait for it, within a bound; after that 503 at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, free_port
from tests.http_api.live import live
from tests.http_api.serving import expect_error, serving, submit
from tests.keyring import new_key
from tests.worker.stage import config_on


def absent(**changes: Any) -> NatsBackendConfig:
    return NatsBackendConfig(nats_url=f"nats://127.0.0.1:{free_port()}", **changes)


async def test_the_first_request_after_the_start_is_served(config: NatsBackendConfig) -> None:
    async with serving(config, wait_ready=False) as client:
        run_id = await submit(client)
        assert [run["run_id"] for run in (await client.get("/runs")).json()] == [run_id]


async def test_the_first_request_with_a_key_is_served(nats_server: NatsServer) -> None:
    config = config_on(nats_server, http_auth_mode="api_key")
    store = await Store.connect(config, name="test")
    key = await new_key(store)
    await store.close()
    async with serving(config, wait_ready=False) as client:
        answer = await client.get("/runs", headers={"X-API-Key": key})
        assert answer.status_code == 200, answer.text


async def test_a_request_waits_for_a_broker_that_comes_up_meanwhile(own_nats_server: NatsServer) -> None:
    own_nats_server.stop()
    config = config_on(own_nats_server, start_wait_sec=20)
    async with serving(config, wait_ready=False) as client:
        waiting = asyncio.ensure_future(client.post("/runs", json={"flow_name": "noop"}))
        assert (await client.get("/health")).status_code == 200
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert not waiting.done()
        own_nats_server.start()
        assert (await waiting).status_code == 200


async def test_streams_and_sockets_wait_too(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server, start_wait_sec=20)
    async with serving(config) as client:
        job_id = (await client.post("/jobs", json={"parameters": {}})).json()["id"]
    own_nats_server.stop()
    async with live(config, wait_ready=False) as started:

        async def status_frame() -> str | bytes:
            async with connect(f"ws://127.0.0.1:{started.port}/jobs/{job_id}/ws") as socket:
                return await socket.recv()

        async def stream_opening() -> bytes:
            async with started.client.stream("GET", "/stream?topic=runs") as answer:
                assert answer.status_code == 200
                return await anext(answer.aiter_bytes())

        waiting = [asyncio.ensure_future(status_frame()), asyncio.ensure_future(stream_opening())]
        assert (await started.client.get("/health")).status_code == 200
        own_nats_server.start()
        frame, opening = await asyncio.gather(*waiting)
        assert job_id in str(frame)
        assert str(opening).startswith("b'retry: ")


async def test_after_the_bound_there_is_no_waiting_any_more() -> None:
    loop = asyncio.get_running_loop()
    async with serving(absent(start_wait_sec=0.5), wait_ready=False) as client:
        began = loop.time()
        first = await client.get("/runs")
        waited = loop.time() - began
        expect_error(first, 503, "ERR-PYOCO-0003")
        assert int(first.headers["retry-after"]) >= 1
        assert waited >= 0.3
        began = loop.time()
        later = await client.get("/runs")
        assert later.status_code == 503
        assert loop.time() - began < 0.3


async def test_a_socket_is_refused_with_retry_after_when_the_bound_is_over() -> None:
    async with live(absent(start_wait_sec=0.2), wait_ready=False) as started:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws://127.0.0.1:{started.port}/jobs/{'a' * 32}/ws"):
                pass
        assert refused.value.response.status_code == 503
        assert int(refused.value.response.headers["retry-after"]) >= 1


async def test_pages_that_need_no_broker_do_not_wait() -> None:
    async with serving(absent(start_wait_sec=3600), wait_ready=False) as client:
        for path in ("/health", "/ready", "/openapi.json", "/docs", "/"):
            assert (await client.get(path)).status_code in (200, 404, 503)


async def test_a_gateway_that_stops_lets_waiting_requests_go() -> None:
    async with serving(absent(start_wait_sec=3600), wait_ready=False) as client:
        waiting = asyncio.ensure_future(client.get("/runs"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
    assert (await waiting).status_code == 503
