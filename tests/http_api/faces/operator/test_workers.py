"""`/workers`: REQ-0015 and REQ-0022, ERR-PYOCO-0019 and ERR-PYOCO-0020."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.fleet.registry import NOTHING_YET
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import expect_error, serving, submit
from tests.http_api.tenants import as_tenants
from tests.worker.stage import Flows, config_on, one_task, waiting, working


async def entered(store: Store, worker_id: str, **members: Any) -> None:
    now = time.time()
    entry = {"state": "IDLE", "last_seen_at": now, "last_heartbeat_at": now, "tags": ["default"]}
    await store.registry.merge(worker_id, entry | {"instance_id": f"{worker_id}.1"} | members)


async def ids(client: httpx.AsyncClient, query: str = "") -> list[str]:
    answer = await client.get(f"/workers{query}")
    assert answer.status_code == 200, answer.text
    return [entry["worker_id"] for entry in answer.json()]


async def test_nobody_works_here_yet(client: httpx.AsyncClient) -> None:
    answer = await client.get("/workers")
    assert (answer.status_code, answer.content) == (200, b"[]")


async def test_a_worker_is_shown_with_all_members_of_the_contract(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with working(config, worker_id="w1", tags=["gpu", "default"]):
        [entry] = (await client.get("/workers")).json()
    assert (entry["worker_id"], entry["state"], entry["hidden"]) == ("w1", "IDLE", False)
    assert entry["tags"] == ["gpu", "default"]
    assert entry["last_seen_at"] == entry["last_heartbeat_at"] == entry["heartbeat_at"]
    assert set(entry) >= {"instance_id", *NOTHING_YET}
    [stopped] = (await client.get("/workers?scope=all")).json()
    assert (stopped["state"], stopped["stop_reason"]) == ("STOPPED_GRACEFUL", "graceful_shutdown")
    assert stopped["stopped_at"] > 0
    assert await ids(client) == []


@pytest.fixture
async def crowd(store: Store) -> None:
    now = time.time()
    await entered(store, "idle", last_seen_at=now - 1)
    await entered(store, "busy", last_seen_at=now, state="RUNNING", current_run_id="r")
    await entered(store, "silent", last_seen_at=now - 60)
    await entered(store, "stopped", last_seen_at=now - 90, state="STOPPED_GRACEFUL")
    await entered(store, "unseen", last_seen_at=now - 2, hidden=True)
    await entered(store, "dotted.name", last_seen_at=now - 3)


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["busy", "idle", "dotted.name"]),
        ("?scope=active&include_hidden=false", ["busy", "idle", "dotted.name"]),
        ("?include_hidden=true", ["busy", "idle", "unseen", "dotted.name"]),
        ("?scope=all", ["busy", "idle", "dotted.name", "silent", "stopped"]),
        ("?scope=all&include_hidden=1", ["busy", "idle", "unseen", "dotted.name", "silent", "stopped"]),
        ("?state=RUNNING", ["busy"]),
        ("?state=running", ["busy"]),
        ("?state=DISCONNECTED", []),
        ("?scope=all&state=DISCONNECTED", ["silent"]),
        ("?scope=ALL&state=STOPPED_GRACEFUL", ["stopped"]),
        ("?limit=1", ["busy"]),
        ("?scope=all&limit=500", ["busy", "idle", "dotted.name", "silent", "stopped"]),
    ],
)
async def test_workers_are_chosen_by_scope_state_and_hidden(
    client: httpx.AsyncClient, query: str, shown: list[str]
) -> None:
    assert await ids(client, query) == shown


@pytest.mark.parametrize(
    "query",
    ["scope=some", "scope=", "state=AWAKE", "include_hidden=perhaps", "include_hidden=", "limit=0",
     "limit=501", "limit=-1", "limit=x", "limit=", "limit=１", "limit=99999999999999999999"],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_422_0019(client: httpx.AsyncClient, query: str) -> None:
    body = expect_error(await client.get(f"/workers?{query}"), 422, "ERR-PYOCO-0019")
    assert body["detail"][0]["loc"] == ["query", query.partition("=")[0]]


async def test_many_workers_long_gone_are_listed_beyond_one_batch(
    client: httpx.AsyncClient, store: Store
) -> None:
    await asyncio.gather(*(entered(store, f"w{n}", last_seen_at=n) for n in range(300)))
    assert await ids(client) == []
    assert await ids(client, "?scope=all&limit=500") == [f"w{n}" for n in reversed(range(300))]


async def test_what_is_no_entry_is_left_out(client: httpx.AsyncClient, store: Store) -> None:
    await entered(store, "w1")
    for key, value in {"w2": b"{", "w3": b"[1]", "w4": b"\xff", "w5": b'{"state":7,"tags":null}'}.items():
        await store.jetstream.publish(f"$KV.{store.config.workers_kv_bucket}.{key}", value)
    assert await ids(client) == ["w1"]
    assert await ids(client, "?scope=all") == ["w1", "w5"]


async def test_a_worker_can_be_hidden_and_shown(client: httpx.AsyncClient, store: Store) -> None:
    await entered(store, "w.1")
    begun = time.time()
    answer = await client.patch("/workers/w.1", json={"hidden": True})
    assert answer.status_code == 200
    body = answer.json()
    assert begun <= body.pop("updated_at") <= time.time()
    assert body == {"worker_id": "w.1", "hidden": True}
    assert await ids(client) == []
    assert await ids(client, "?include_hidden=true") == ["w.1"]
    assert (await client.patch("/workers/w.1", json={"hidden": False, "more": 1})).json()["hidden"] is False
    assert await ids(client) == ["w.1"]


async def test_hiding_holds_against_a_worker_that_writes_at_the_same_moment(
    client: httpx.AsyncClient, store: Store
) -> None:
    await entered(store, "w1")
    writes = [entered(store, "w1", number=number) for number in range(8)]
    hiding = asyncio.ensure_future(client.patch("/workers/w1", json={"hidden": True}))
    await asyncio.gather(hiding, *writes)
    assert hiding.result().status_code == 200
    assert (await client.get("/workers?include_hidden=1")).json()[0]["hidden"] is True


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"{", b'{"hidden": 1}', b'{"hidden": "true"}', b'{"hidden": null}',
     b'{"Hidden": true}', b"\xff", b"[" * 5000],
)  # fmt: skip
async def test_a_patch_that_makes_no_sense_is_422_0019(
    client: httpx.AsyncClient, store: Store, body: bytes
) -> None:
    await entered(store, "w1")
    expect_error(await client.patch("/workers/w1", content=body), 422, "ERR-PYOCO-0019")
    assert await ids(client) == ["w1"]


@pytest.mark.parametrize("worker_id", ["w2", "w%201", "*", "%3E", "w..1", "x" * 200, "w%0d%0a1", "%E3%81%8C"])
async def test_a_worker_that_is_not_there_is_404_0020(
    client: httpx.AsyncClient, store: Store, worker_id: str
) -> None:
    await entered(store, "w1")
    expect_error(await client.patch(f"/workers/{worker_id}", json={"hidden": True}), 404, "ERR-PYOCO-0020")
    assert await ids(client, "?scope=all&include_hidden=1") == ["w1"]


async def test_without_a_broker_both_are_503(nats_server: NatsServer) -> None:
    async with serving(
        config_on(nats_server, nats_url="nats://127.0.0.1:1", start_wait_sec=0), wait_ready=False
    ) as client:
        expect_error(await client.get("/workers"), 503, "ERR-PYOCO-0003")
        expect_error(await client.patch("/workers/w1", json={"hidden": True}), 503, "ERR-PYOCO-0003")


async def test_a_patch_without_end_is_413(nats_server: NatsServer) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    async with serving(config_on(nats_server, http_max_body_bytes=5000)) as client:
        answer = await client.patch("/workers/w1", content=endless())
        expect_error(answer, 413, "ERR-PYOCO-0002")


async def test_a_tenant_sees_no_runs_and_wheels_of_others(nats_server: NatsServer) -> None:
    wheel = "secret-1-py3-none-any.whl"
    sync: dict[str, Any] = {"enabled": True, "selected_count": 1, "last_error": f"{wheel}: broken"}
    async with as_tenants(nats_server, "acme", "other") as (store, [client, others]):
        own, foreign = await submit(client), await submit(others)
        await entered(
            store, "w1", state="RUNNING", current_run_id=foreign, current_run_ids=[foreign, own],
            last_run_id=foreign, last_run_status="FAILED", last_run_started_at=1.0, last_run_finished_at=2.0,
            wheel_sync=sync | {"selected_wheels": [wheel], "installed_wheels": [{"wheel_name": wheel}]},
        )  # fmt: skip
        await client.get("/runs")  # waits until the list has both
        answer = await client.get("/workers")
    [entry] = answer.json()
    assert foreign not in answer.text
    assert (entry["current_run_id"], entry["current_run_ids"]) == (own, [own])
    assert [entry[name] for name in entry if name.startswith("last_run_")] == [None] * 4
    unnamed: dict[str, Any] = {"selected_wheels": [], "installed_wheels": [], "last_error": None}
    assert entry["wheel_sync"] == sync | unnamed


async def test_a_run_that_somebody_has_says_how_its_worker_is(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    started, go_on = threading.Event(), threading.Event()
    run_id = await submit(client, "waits")
    members = ("worker_alive", "worker_heartbeat_at", "worker_tags")

    async def shown() -> tuple[Any, ...]:
        run = (await client.get(f"/runs/{run_id}")).json()
        return tuple(run.get(name, "not shown") for name in members)

    assert await shown() == ("not shown",) * 3
    flows = Flows(waits=one_task(waiting(started, go_on)))
    async with working(config, flows, worker_id="w1", tags=["default", "gpu"]) as worker:
        working_on_it = asyncio.ensure_future(worker.run_once(timeout=5))
        await until(started.is_set)
        alive, heartbeat_at, tags = await shown()
        assert (alive, tags) == (True, ["default", "gpu"])
        assert abs(heartbeat_at - time.time()) < 60
        go_on.set()
        assert await working_on_it == run_id
    assert await shown() == ("not shown",) * 3
