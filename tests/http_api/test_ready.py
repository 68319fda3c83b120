"""/health without the broker, /ready only with it; and nothing has to be restarted, whatever it does."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.conftest import NatsServer, free_port, until
from tests.http_api.serving import expect_error, is_ready, serving, submit
from tests.worker.stage import config_on, until_handled, working

DATA_ROUTES = [
    ("GET", "/runs"),
    ("POST", "/runs"),
    ("GET", f"/runs/{uuid.UUID(int=1)}"),
    ("GET", f"/runs/{uuid.UUID(int=1)}/tasks"),
    ("POST", f"/runs/{uuid.UUID(int=1)}/cancel"),
]


async def test_a_ready_gateway_says_so(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    health = await client.get("/health")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    ready = await client.get("/ready")
    assert (ready.status_code, ready.json()) == (
        200,
        {
            "ready": True,
            "reasons": [],
            "broker": {"url": config.nats_url, "embedded": False, "durability": None},
            "read_model": {"lag": 0},
        },
    )


async def test_without_a_broker_it_lives_and_says_why_it_is_not_ready() -> None:
    config = NatsBackendConfig(nats_url=f"nats://127.0.0.1:{free_port()}", start_wait_sec=0)
    async with serving(config, wait_ready=False) as client:
        assert (await client.get("/health")).json() == {"status": "ok"}
        answer = await client.get("/ready")
        assert answer.status_code == 503
        assert answer.json()["ready"] is False
        assert answer.json()["reasons"]
        for method, path in DATA_ROUTES:
            await _expect_unavailable(client, method, path)


async def test_a_broker_that_comes_later_is_found(own_nats_server: NatsServer) -> None:
    own_nats_server.stop()
    async with serving(config_on(own_nats_server, start_wait_sec=0), wait_ready=False) as client:
        await _expect_unavailable(client, "GET", "/runs")
        own_nats_server.start()
        await until(lambda: is_ready(client))
        assert (await client.get("/runs")).json() == []
        assert await submit(client)


async def test_a_broker_that_restarts_is_found_again(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server)
    async with serving(config) as client, working(config) as worker:
        before = await submit(client)
        own_nats_server.kill()
        await until(lambda: _is_not_ready(client))
        assert (await client.get("/ready")).json()["reasons"]
        assert (await client.get("/health")).status_code == 200
        for method, path in DATA_ROUTES:
            await _expect_unavailable(client, method, path)
        own_nats_server.start()
        await until(lambda: is_ready(client))
        after = await submit(client)
        await until(lambda: worker._store.is_connected)
        await until_handled(worker, before)
        await until_handled(worker, after)
        listed = (await client.get("/runs")).json()
        assert {run["run_id"]: run["status"] for run in listed} == {before: "COMPLETED", after: "COMPLETED"}


async def test_what_happened_while_it_was_away_is_listed_when_it_is_back(
    own_nats_server: NatsServer,
) -> None:
    config = config_on(own_nats_server)
    async with serving(config) as client, serving(config) as other:
        own_nats_server.kill()
        await until(lambda: _is_not_ready(client))
        own_nats_server.start()
        await until(lambda: is_ready(other))
        run_id = await submit(other)
        await until(lambda: is_ready(client))
        assert [run["run_id"] for run in (await client.get("/runs")).json()] == [run_id]


async def test_something_else_that_answers_on_the_port_first_is_waited_out(tmp_path: Path) -> None:
    """A port-forward, or a broker that dies in the middle of the greeting."""
    port = free_port()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    stranger = await asyncio.start_server(hang_up, "127.0.0.1", port)
    server = NatsServer(tmp_path, port)
    async with serving(config_on(server, start_wait_sec=0), wait_ready=False) as client:
        await _expect_unavailable(client, "GET", "/runs")
        # waits: it has to have met the stranger, which leaves no trace
        await asyncio.sleep(0.3)
        stranger.close()
        await stranger.wait_closed()
        server.start()
        await until(lambda: is_ready(client))
        assert await submit(client)
    server.stop()


@pytest.mark.parametrize("up", [True, False], ids=["broker up", "broker away"])
async def test_no_answer_shows_credentials(nats_server: NatsServer, up: bool) -> None:
    place = nats_server.url.removeprefix("nats://") if up else f"127.0.0.1:{free_port()}"
    config = config_on(nats_server, nats_url=f"nats://somebody:hunter2@{place}", start_wait_sec=0)
    async with serving(config, wait_ready=up) as client:
        for path in ("/ready", "/runs", "/health", "/openapi.json"):
            answer = await client.get(path)
            assert "hunter2" not in answer.text
            assert "somebody" not in answer.text
        assert place in (await client.get("/ready")).json()["broker"]["url"]


async def test_a_gateway_whose_broker_never_came_stops_soon() -> None:
    config = NatsBackendConfig(nats_url=f"nats://127.0.0.1:{free_port()}", start_wait_sec=0)
    loop = asyncio.get_running_loop()
    async with serving(config, wait_ready=False) as client:
        assert (await client.get("/health")).status_code == 200
        began = loop.time()
    assert loop.time() - began < 20.0


async def _is_not_ready(client: httpx.AsyncClient) -> bool:
    return not await is_ready(client)


async def _expect_unavailable(client: httpx.AsyncClient, method: str, path: str) -> None:
    body = {"flow_name": "noop"} if (method, path) == ("POST", "/runs") else None
    refused = expect_error(await client.request(method, path, json=body), 503, "ERR-PYOCO-0003")
    assert refused["message"] == "NATS is not available"
