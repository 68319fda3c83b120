"""`/flows`, `/system`, `/caller`, `/runs/{id}/graph` and `/workers/stream`: what the dashboard lives from."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.live import Event, Live, events, live
from tests.http_api.serving import submit
from tests.http_api.tenants import as_tenants
from tests.worker.stage import Flows, chain, config_on, one_task, working

NOBODY = "00000000-0000-0000-0000-000000000000"


def first() -> str:
    return "a"


def second() -> str:
    return "b"


def third() -> str:
    return "c"


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as started:
        yield started


async def test_flows_are_those_announced_and_those_run(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    assert (await client.get("/flows")).json() == []
    flows = Flows(noop=one_task(first))
    flows.flows = {"noop": "Does nothing", "unused": ""}  # type: ignore[attr-defined]
    async with working(config, flows) as worker:
        run_id = await submit(client, "noop")
        await worker.run_once(timeout=20.0)
        await submit(client, "unknown-to-workers", tag="gpu")
        known = {flow["flow_name"]: flow for flow in (await client.get("/flows")).json()}
    assert list(known) == ["noop", "unknown-to-workers", "unused"]
    noop = known["noop"]
    assert (noop["description"], noop["tags"], noop["workers"]) == ("Does nothing", ["default"], 1)
    assert noop["ended"] == {"COMPLETED": 1}
    assert len(noop["durations_sec"]) == 1
    assert (noop["last_run_id"], noop["last_status"]) == (run_id, "COMPLETED")
    assert known["unused"]["last_run_id"] is None
    assert (known["unknown-to-workers"]["workers"], known["unknown-to-workers"]["last_tag"]) == (0, "gpu")


async def test_what_flows_may_be_given_is_told_with_them_and_not_with_every_beat(
    client: httpx.AsyncClient, store: Store
) -> None:
    params = [{"name": "day", "required": True, "type": "str"}]
    entry = {"state": "IDLE", "last_seen_at": time.time(), "instance_id": "i", "tags": ["default"]}
    entry |= {"flows": {"orders": "Loads them", "other": ""}, "flow_params": {"orders": params}}
    await store.registry.merge("w1", entry)
    known = {flow["flow_name"]: flow["params"] for flow in (await client.get("/flows")).json()}
    assert known == {"orders": params, "other": None}
    [worker] = (await client.get("/workers")).json()
    assert (worker["flows"], "flow_params" in worker) == ({"orders": "Loads them", "other": ""}, False)


async def test_a_run_shows_which_task_waits_for_which(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with working(config, Flows(row=chain(first, second, third))) as worker:
        run_id = await submit(client, "row")
        assert (await client.get(f"/runs/{run_id}/graph")).json()["nodes"] == []
        await worker.run_once(timeout=20.0)
    drawn = (await client.get(f"/runs/{run_id}/graph")).json()
    assert drawn["ordered"] is True
    assert {node["id"]: node["after"] for node in drawn["nodes"]} == {
        "t1": [],
        "t2": ["t1"],
        "t3": ["t2"],
    }
    assert {node["join"] for node in drawn["nodes"]} == {"all_success"}
    assert (await client.get(f"/runs/{NOBODY}/graph")).status_code == 404


async def test_a_registered_graph_is_drawn_as_it_was_written(client: httpx.AsyncClient) -> None:
    nodes = [{"id": "a"}, {"id": "b", "after": ["a"], "join": "any_success"}, {"id": "c", "type": "wait"}]
    await client.put("/graphs/drawn", json={"nodes": nodes})
    headers = {"X-Idempotency-Key": "drawn-once"}
    made = await client.post("/executions", json={"graphId": "drawn"}, headers=headers)
    drawn = (await client.get(f"/runs/{made.json()['executionId']}/graph")).json()
    assert drawn["nodes"][1] == {"id": "b", "type": "task", "after": ["a"], "join": "any_success"}
    assert drawn["nodes"][2]["type"] == "wait"


async def test_the_system_shows_streams_against_their_limits(client: httpx.AsyncClient) -> None:
    await submit(client)
    body = (await client.get("/system")).json()
    assert body["ready"] is True
    assert body["versions"]["pyoco-server"]
    streams = {stream["name"]: stream for stream in body["streams"]}
    assert len(streams) >= 12
    assert sum(stream["messages"] for stream in streams.values()) >= 3
    limited = [stream for stream in streams.values() if stream["bytes_max"]]
    assert limited
    assert all(stream["bytes"] <= stream["bytes_max"] for stream in limited)


async def test_callers_are_told_who_they_are(client: httpx.AsyncClient, nats_server: NatsServer) -> None:
    anybody = (await client.get("/caller")).json()
    assert (anybody["tenant_id"], anybody["scopes"]) == (None, None)
    assert anybody["cancel_grace_sec"] > 0
    assert anybody["has_strategies"] is False
    async with as_tenants(nats_server, "acme", scopes=["wheels:write"]) as (_, (acme,)):
        told = (await acme.get("/caller")).json()
        assert (told["tenant_id"], told["scopes"]) == ("acme", ["wheels:write"])
        assert (await acme.get("/flows")).status_code == 403
        assert (await acme.get("/system")).status_code == 403


async def test_workers_are_told_as_they_come_work_and_go(gateway: Live, config: NatsBackendConfig) -> None:
    async with gateway.client.stream("GET", "/workers/stream") as answer:
        stream = events(answer)
        async with working(config, Flows(noop=one_task(first))) as worker:
            assert (await told(stream, "IDLE"))["worker_id"] == worker.worker_id
            run_id = await submit(gateway.client, "noop")
            await worker.run_once(timeout=20.0)
            last = await told(stream, "IDLE", last_run_id=run_id)
            assert last["last_run_status"] == "COMPLETED"
        assert (await told(stream, "STOPPED_GRACEFUL"))["stop_reason"]
    await until(lambda: len(gateway.gateway.worker_changes) == 0)


async def test_a_worker_that_falls_silent_is_told_as_lost(nats_server: NatsServer) -> None:
    config = config_on(nats_server, worker_disconnect_timeout_sec=1.0)
    async with live(config) as gateway:
        entry = {"state": "IDLE", "last_seen_at": time.time(), "tags": ["default"]}
        await gateway.gateway.store.registry.merge("silent", entry)
        async with gateway.client.stream("GET", "/workers/stream") as answer:
            stream = events(answer)
            await told(stream, "IDLE")
            await told(stream, "DISCONNECTED")


async def told(stream: AsyncIterator[Event], state: str, **members: object) -> dict[str, object]:
    """The first worker that is told so."""
    async for event in stream:
        assert event.name == "workers"
        for worker in event.data["workers"]:
            if worker["state"] == state and all(worker[name] == value for name, value in members.items()):
                return dict(worker)
    raise AssertionError("the stream ended before")
