"""A broker that fails for a moment costs a run time, never its end, and never a second execution."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.events import RunClaimed, RunCompleted
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.conftest import NatsServer, until
from tests.engine.building import await_signal
from tests.worker.stage import (
    Flows,
    chain,
    commits_of,
    config_on,
    count_of,
    ended_as,
    jobs_queued,
    letters,
    queue_drained,
    status_of,
    submitted,
    the_run,
    working,
)


async def test_a_claim_that_cannot_be_written_is_put_off_and_executed_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    flows = Flows()
    async with working(store.config, flows) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[0], RunClaimed))
        assert await worker.run_once(timeout=5.0) is None
        assert (await status_of(store, run_id), await jobs_queued(store), flows.asked) == ("PENDING", 1, [])
        assert await worker.run_once(timeout=0.5) is None, "it comes again only after two seconds"
        assert await worker.run_once(timeout=5.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert (flows.asked, await letters(store)) == (["noop"], [])


async def test_a_claim_whose_answer_was_lost_is_given_back_and_executed_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says that we have it, and we do not know: nobody else would ever take it from us."""
    run_id = await submitted(store)
    flows = Flows()
    async with working(store.config, flows) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[0], RunClaimed), after_it=True)
        assert await worker.run_once(timeout=5.0) is None
        assert (await status_of(store, run_id), flows.asked) == ("RUNNING", [])
        while flows.asked == []:
            assert await worker.run_once(timeout=5.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        run = await the_run(store, run_id)
        assert (run.losses, run.crashes, run.fence, flows.asked) == (0, 0, 2, ["noop"])


async def test_an_end_that_cannot_be_written_yet_is_written_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    flows = Flows()
    async with working(store.config, flows) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[-1], RunCompleted))
        assert await worker.run_once(timeout=5.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert flows.asked == ["noop"]


async def test_an_end_whose_answer_was_lost_is_written_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    async with working(store.config) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[-1], RunCompleted), after_it=True)
        assert await worker.run_once(timeout=5.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert await count_of(store, run_id, "RunCompleted") == 1


@pytest.mark.parametrize("after_it", [False, True], ids=["not sent", "answer lost"])
async def test_the_failure_of_an_unknown_flow_is_written_later(
    store: Store, monkeypatch: pytest.MonkeyPatch, after_it: bool
) -> None:
    run_id = await submitted(store, "unheard_of")
    async with working(store.config) as worker:
        _fail_once(worker, monkeypatch, lambda events: not isinstance(events[0], RunClaimed), after_it)
        assert await worker.run_once(timeout=5.0) == run_id
        await queue_drained(store)
        assert (await ended_as(store, run_id, "FAILED")).pyoco.reason == "flow_not_found"
        assert [letter["reason"] for letter in await letters(store)] == ["flow_not_found"]


async def test_a_broker_killed_in_the_middle_of_a_run_delays_it(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server)
    store = await Store.connect(config, name="test")
    started, go_on = threading.Event(), threading.Event()
    executed: list[str] = []

    def first() -> int:
        executed.append("first")
        started.set()
        await_signal(go_on)
        return 1

    def second() -> int:
        executed.append("second")
        return 2

    async with working(config, Flows(steps=chain(first, second))) as worker:
        run_id = await submitted(store, "steps")
        running = asyncio.create_task(worker.run_once(timeout=5.0))
        await until(started.is_set)
        own_nats_server.kill()
        await until(lambda: not worker._store.is_connected)
        go_on.set()
        own_nats_server.start()
        assert await asyncio.wait_for(running, 30.0) == run_id
        await until(lambda: store.is_connected)
        await ended_as(store, run_id, "COMPLETED")
        assert executed == ["first", "second"]
        assert sum("RunClaimed" in commit for commit in await commits_of(store, run_id)) == 1
        other = await submitted(store, "noop")
        await until(lambda: worker.run_once(timeout=1.0))
        await ended_as(store, other, "COMPLETED")
    await store.close()


def _fail_once(
    worker: PyocoNatsWorker,
    monkeypatch: pytest.MonkeyPatch,
    concerns: Callable[[Any], bool],
    after_it: bool = False,
) -> None:
    """The first append that is concerned raises Unavailable: before it is sent, or after it was answered."""
    runs = worker._store.runs
    append = runs.append
    failed: list[object] = []

    async def failing(at: Any, events: Any, commit_id: str) -> Any:
        if failed or not concerns(events):
            return await append(at, events, commit_id)
        failed.append(events)
        if after_it:
            await append(at, events, commit_id)
        raise Unavailable("The broker cannot be reached.")

    monkeypatch.setattr(runs, "append", failing)
