"""`PATCH /workers/{id}` with `draining`, and `/workers/stream` of workers that drain or are gone."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.operator.test_workers import entered
from tests.http_api.live import Event, events, live
from tests.http_api.serving import expect_error, serving, submit
from tests.worker.stage import config_on, working

NEITHER = "Give hidden, draining, or both; each is true or false."


@pytest.mark.parametrize(
    ("asked", "members"),
    [
        ({"draining": True}, '"draining":true'),
        ({"draining": False}, '"draining":false'),
        ({"draining": True, "hidden": True}, '"hidden":true,"draining":true'),
        ({"hidden": False, "draining": False, "more": 1}, '"hidden":false,"draining":false'),
    ],
)
async def test_the_answer_has_what_was_asked_for(
    client: httpx.AsyncClient, store: Store, asked: dict[str, Any], members: str
) -> None:
    await entered(store, "w1")
    answer = await client.patch("/workers/w1", json=asked)
    updated_at = json.dumps(answer.json()["updated_at"])
    assert answer.status_code == 200
    assert answer.text == f'{{"worker_id":"w1",{members},"updated_at":{updated_at}}}'
    [entry] = (await client.get("/workers?include_hidden=1")).json()
    assert entry["drain_requested"] is asked["draining"]
    assert entry["draining"] is False  # that it drains, the worker says itself
    assert "drain_instance_id" not in entry


@pytest.mark.parametrize("body", ["{}", '{"more":1}'])
async def test_with_neither_the_body_says_what_to_give(client: httpx.AsyncClient, body: str) -> None:
    answer = await client.patch("/workers/w1", content=body)
    assert answer.status_code == 422
    assert answer.text == (
        f'{{"detail":[{{"loc":["body"],"msg":"{NEITHER}","type":"value_error"}}],'
        f'"err_id":"ERR-PYOCO-0019","msg_id":"MSG-PYOCO-0019","message":"The workers request is not valid"}}'
    )


@pytest.mark.parametrize("value", ["1", '"true"', "null", "[]", "{}"])
async def test_a_member_of_the_wrong_type_changes_nothing(
    client: httpx.AsyncClient, store: Store, value: str
) -> None:
    await entered(store, "w1")
    body = f'{{"hidden": true, "draining": {value}}}'
    answer = await client.patch("/workers/w1", content=body)
    assert "$.draining" in str(expect_error(answer, 422, "ERR-PYOCO-0019")["detail"])
    [entry] = (await client.get("/workers")).json()
    assert entry["drain_requested"] is False


@pytest.mark.parametrize("draining", [True, False])
@pytest.mark.parametrize(("state", "silent_sec"), [("STOPPED_GRACEFUL", 0), ("DISCONNECTED", 60)])
async def test_a_worker_that_is_gone_neither_drains_nor_resumes(
    client: httpx.AsyncClient, store: Store, state: str, silent_sec: float, draining: bool
) -> None:
    written = "IDLE" if state == "DISCONNECTED" else state
    await entered(store, "w1", state=written, last_seen_at=time.time() - silent_sec, draining=True)
    answer = await client.patch("/workers/w1", json={"draining": draining, "hidden": True})
    sentence = f"Worker w1 is {state}: it takes no runs, and works again when it is started."
    assert answer.status_code == 409
    assert answer.text == (
        f'{{"detail":"{sentence}","message":"{sentence}","worker_id":"w1","state":"{state}"}}'
    )
    [entry] = (await client.get("/workers?scope=all")).json()  # and is not hidden either
    assert (entry["draining"], entry["drain_requested"]) == (False, False)


@pytest.mark.parametrize("worker_id", ["w2", "*", "w%201"])
async def test_nobody_of_that_name_is_404(client: httpx.AsyncClient, store: Store, worker_id: str) -> None:
    await entered(store, "w1")
    expect_error(await client.patch(f"/workers/{worker_id}", json={"draining": True}), 404, "ERR-PYOCO-0020")


async def test_the_wish_is_for_one_instance(client: httpx.AsyncClient, store: Store) -> None:
    await entered(store, "w1")
    await client.patch("/workers/w1", json={"draining": True})
    await entered(store, "w1", instance_id="w1.2")
    assert (await client.get("/workers")).json()[0]["drain_requested"] is False


async def test_another_gateway_knows_who_drains(config: NatsBackendConfig) -> None:
    """The wish outlives the gateway that was asked."""
    async with working(config, worker_id="w1") as worker:
        async with serving(config) as client:
            await client.patch("/workers/w1", json={"draining": True})
            await until(lambda: worker._draining.is_draining)
        async with serving(config) as client:

            async def is_said() -> bool:
                [entry] = (await client.get("/workers")).json()
                return bool(entry["draining"])

            await until(is_said)
            run_id = await submit(client)
            assert await worker.run_once(timeout=0.1) is None
            await client.patch("/workers/w1", json={"draining": False})
            await until(lambda: not worker._draining.is_draining)
            assert await worker.run_once(timeout=10) == run_id


async def test_the_metrics_count_who_drains_and_leave_out_their_slots(
    client: httpx.AsyncClient, store: Store
) -> None:
    await entered(store, "w1", slots=4, free_slots=3, draining=True)
    await entered(store, "w2", slots=2, free_slots=1)
    lines = (await client.get("/metrics")).text.splitlines()
    for line in ("alive 2", "draining 1"):
        assert f"pyoco_workers_{line}" in lines
    for line in ("slots 6", "slots_free 1"):
        assert f"pyoco_worker_{line}" in lines


async def test_that_there_is_nobody_is_told_at_once(config: NatsBackendConfig) -> None:
    async with (
        live(config) as gateway,
        gateway.client.stream("GET", "/workers/stream?timeout_sec=1") as answer,
    ):
        nobody = {"workers": [], "gone": [], "all": True}
        assert [event async for event in events(answer)] == [Event("workers", nobody, None)]


@pytest.mark.parametrize("query", ["0", "601", "x", "1.5", ""])
async def test_a_stream_for_no_sensible_time_is_422(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/workers/stream?timeout_sec={query}")
    assert expect_error(answer, 422, "ERR-PYOCO-0019")["detail"][0]["loc"] == ["query", "timeout_sec"]


async def test_a_worker_long_gone_is_told_as_gone_and_kept_no_more(nats_server: NatsServer) -> None:
    config = config_on(nats_server, worker_disconnect_timeout_sec=0.5, worker_history_sec=1.0)
    async with live(config) as gateway:
        store = gateway.gateway.store
        await entered(store, "old", state="STOPPED_GRACEFUL")
        async with gateway.client.stream("GET", "/workers/stream") as answer:
            stream = events(answer)
            first = await anext(stream)
            assert [one["worker_id"] for one in first.data["workers"]] == ["old"]
            assert (await anext(stream)).data == {"workers": [], "gone": ["old"], "all": False}
        assert (await gateway.client.get("/workers?scope=all")).json() == []


async def test_the_registry_is_read_when_something_happens_and_otherwise_not(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(config) as gateway:
        store = gateway.gateway.store
        received = asyncio.Event()
        monkeypatch.setattr(gateway.gateway.worker_changes, "_on_written", lambda _: received.set())
        await entered(store, "stopped", state="STOPPED_GRACEFUL")
        await received.wait()  # what is received later causes a read
        reads = 0
        listed = store.registry.list

        async def counted(**asked: Any) -> Any:
            nonlocal reads
            reads += 1
            return await listed(**asked)

        monkeypatch.setattr(store.registry, "list", counted)
        async with gateway.client.stream("GET", "/workers/stream") as answer:
            stream = events(answer)
            await anext(stream)
            [reader] = gateway.gateway.worker_changes._readers
            assert (reads, reader._timer) == (1, None)  # nobody lives, so nobody will fall silent
            await entered(store, "stopped", state="STOPPED_GRACEFUL", tags=["other"])
            assert (await anext(stream)).data["workers"][0]["tags"] == ["other"]
            assert reads == 2
            await entered(store, "lives")
            await anext(stream)
            timer = reader._timer
            assert timer is not None
            assert timer.when() > asyncio.get_running_loop().time() + 10


async def test_what_is_written_while_the_registry_is_read_is_told(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(config) as gateway:
        store = gateway.gateway.store
        listed, is_first = store.registry.list, True

        async def overtaken(**asked: Any) -> Any:
            nonlocal is_first
            found = await listed(**asked)
            if is_first:
                is_first = False
                await entered(store, "w1", state="STOPPED_GRACEFUL")
                [reader] = gateway.gateway.worker_changes._readers
                await until(lambda: reader._reading._woken.is_set())
            return found

        monkeypatch.setattr(store.registry, "list", overtaken)
        async with gateway.client.stream("GET", "/workers/stream") as answer:
            stream = events(answer)
            assert (await anext(stream)).data["workers"] == []
            assert [one["worker_id"] for one in (await anext(stream)).data["workers"]] == ["w1"]
