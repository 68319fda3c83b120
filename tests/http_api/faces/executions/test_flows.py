"""`flow:<name>`: an execution that workers drive, in the words of this face."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.conftest import until
from tests.engine.building import raising
from tests.http_api.faces.executions.driving import Driver, expect_rejected
from tests.worker.stage import Flows, chain, count_of, lawful, one_task, until_handled, waiting, working


@pytest.fixture
def drive(client: httpx.AsyncClient) -> Driver:
    return Driver(client)


async def test_a_flow_starts_by_itself_and_its_nodes_appear(drive: Driver, store: Store) -> None:
    execution_id = await drive.create("flow:two", input={"x": 1})
    assert await drive.types(execution_id) == ["EXECUTION_CREATED", "EXECUTION_STARTED"]
    before = await drive.get(execution_id)
    assert (before["driver"], before["nodes"], before["graphVersion"]) == ("worker", [], None)
    assert before["startedAt"] == before["createdAt"]
    await drive.ok(execution_id, "start")
    async with working(store.config, Flows(two=chain(lambda: 1, lambda: {"n": 2}))) as worker:
        await until_handled(worker, execution_id)
    shown = await drive.get(execution_id)
    assert (shown["status"], shown["graphId"], shown["input"]) == ("COMPLETED", "flow:two", {"x": 1})
    assert [(node["nodeId"], node["status"], node["output"]) for node in shown["nodes"]] == [
        ("t1", "SUCCEEDED", 1),
        ("t2", "SUCCEEDED", {"n": 2}),
    ]
    types = await drive.types(execution_id)
    assert (types[:2], types[-1]) == (["EXECUTION_CREATED", "EXECUTION_STARTED"], "EXECUTION_COMPLETED")
    assert types.index("NODE_SUCCEEDED t1") < types.index("NODE_STARTED t2")
    assert [one["actor"]["kind"] for one in (await drive.events(execution_id))][1:] == ["user"] + [
        "system"
    ] * (len(types) - 2)
    run = (await drive.client.get(f"/runs/{execution_id}")).json()
    assert (run["status"], run["flow_name"]) == ("COMPLETED", "two")
    assert (await drive.get(execution_id, "/verify"))["ok"] is True
    await drive.ok(execution_id, "archive")


async def test_instants_follow_the_order_of_the_events(drive: Driver, store: Store) -> None:
    execution_id = await drive.create("flow:two")
    async with working(store.config, Flows(two=chain(lambda: 1, lambda: 2))) as worker:
        await until_handled(worker, execution_id)
    instants = [event["occurredAt"] for event in await drive.events(execution_id)]
    assert instants == sorted(instants)


async def test_nodes_of_a_flow_say_which_worker_executes_them(drive: Driver, store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    execution_id = await drive.create("flow:two")
    flows = Flows(two=chain(lambda: 1, waiting(started, go_on)))
    async with working(store.config, flows, worker_id="first") as worker:
        handling = asyncio.create_task(until_handled(worker, execution_id))
        await until(started.is_set)

        async def is_running() -> bool:
            nodes = (await drive.get(execution_id))["nodes"]
            return [node["workerId"] for node in nodes] == ["first", "first"]

        await until(is_running)
        go_on.set()
        await handling
    shown = await drive.get(execution_id)
    events = [one for one in await drive.events(execution_id) if one["type"] == "NODE_STARTED"]
    assert [event["payload"]["workerId"] for event in events] == ["first", "first"]
    latest = (await drive.events(execution_id))[-1]["seq"]
    assert await drive.get(execution_id, f"/state?seq={latest}") == shown | {"atSeq": latest}
    assert (await drive.get(execution_id, "/verify"))["ok"] is True
    await lawful(store, execution_id)


async def test_nodes_of_a_flow_are_moved_by_workers_alone(drive: Driver, store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    execution_id = await drive.create("flow:slow")
    async with working(store.config, Flows(slow=one_task(waiting(started, go_on)))) as worker:
        handling = asyncio.create_task(until_handled(worker, execution_id))
        await until(started.is_set)

        async def is_shown() -> bool:
            return bool((await drive.get(execution_id))["nodes"])

        await until(is_shown)
        for what, body in (
            ("only/start", {"attempt": 1, "workerId": "w"}),
            ("only/progress", {"progress": 1}),
            ("only/wait", {"waitKey": "k"}),
            ("only/success", {}),
            ("only/fail", {"error": {"code": "E"}}),
        ):
            expect_rejected(await drive.on(execution_id, what, body), "WRONG_DRIVER", status="ACTIVE")
        expect_rejected(await drive.on(execution_id, "only/resume", {"resumeKey": "k"}), "NODE_STATUS")
        expect_rejected(await drive.on(execution_id, "archive"), "NOT_TERMINAL")
        await drive.ok(execution_id, "cancel")
        asked = await drive.get(execution_id)
        assert (asked["status"], asked["cancelRequestedAt"] is not None) == ("ACTIVE", True)
        expect_rejected(await drive.on(execution_id, "only/resume", {"resumeKey": "k"}), "CANCEL_REQUESTED")
        assert "is stopping it" in (await drive.get(execution_id, "/why"))["summary"]
        go_on.set()
        await handling
    shown = await drive.get(execution_id)
    assert (shown["status"], shown["nodes"][0]["canceledByExecution"]) == ("CANCELED", True)
    types = await drive.types(execution_id)
    assert types[-4:] == [
        "EXECUTION_CANCEL_REQUESTED",
        "NODE_INTERRUPT_REQUESTED only",
        "NODE_CANCELED only",
        "EXECUTION_CANCELED",
    ]
    await lawful(store, execution_id)


async def test_a_flow_that_fails_and_one_that_nobody_knows(drive: Driver, store: Store) -> None:
    failing, unknown = await drive.create("flow:bad"), await drive.create("flow:nowhere")
    async with working(store.config, Flows(bad=one_task(raising(ValueError("boom"))))) as worker:
        for _ in range(2):
            await worker.run_once(timeout=20.0)
    shown = await drive.get(failing)
    assert (shown["status"], shown["error"]["nodeId"]) == ("FAILED", "only")
    assert "boom" in shown["nodes"][0]["error"]["message"]
    lost = await drive.get(unknown)
    assert (lost["status"], lost["error"]["code"]) == ("FAILED", "flow_not_found")
    assert (await drive.types(unknown))[-1] == "EXECUTION_FAILED"


async def test_one_that_no_worker_has_is_cancelled_at_once(drive: Driver, store: Store) -> None:
    execution_id = await drive.create("flow:noop", tag="nobody")
    assert "nobody" in (await drive.get(execution_id, "/why"))["summary"]
    await drive.ok(execution_id, "cancel")
    assert await drive.types(execution_id) == [
        "EXECUTION_CREATED",
        "EXECUTION_STARTED",
        "EXECUTION_CANCEL_REQUESTED",
        "EXECUTION_CANCELED",
    ]
    assert await count_of(store, execution_id, "RunCancelled") == 1


async def test_why_says_that_all_who_could_take_it_drain(drive: Driver, store: Store) -> None:
    execution_id = await drive.create("flow:noop", tag="gpu")

    async def why(language: str) -> tuple[str, str]:
        headers = {"Accept-Language": language}
        told = (await drive.client.get(f"/executions/{execution_id}/why", headers=headers)).json()
        [reason] = told["reasons"]
        assert told["summary"] == reason["message"]
        return reason["reason"], reason["message"]

    entry = {"state": "IDLE", "last_seen_at": time.time(), "instance_id": "i", "tags": ["gpu"]}
    await store.registry.merge("other", entry | {"tags": ["default"]})
    await store.registry.merge("w1", entry | {"draining": True})
    assert await why("en") == (
        "DRAINING",
        "The only worker of tag gpu is draining and takes no new runs. "
        "Resume it, start another, or cancel the run.",
    )
    assert (await why("ja"))[1].startswith("タグ gpu に対応する唯一のワーカーはドレイン中で、")
    await store.registry.merge("w2", entry | {"draining": True})
    assert (await why("en"))[1] == (
        "All 2 workers of tag gpu are draining and take no new runs. "
        "Resume one, start another, or cancel the run."
    )
    assert (await why("ja"))[1].startswith("タグ gpu に対応するワーカー 2 台はすべてドレイン中で、")
    await store.registry.merge("w2", {"draining": False})
    assert (await why("en"))[0] == "QUEUED"
    await store.registry.merge("w2", {"state": "STOPPED_GRACEFUL"})
    assert (await why("en"))[0] == "DRAINING"
