"""A run taken from its worker goes on where it was; what the old worker says afterwards is not heard."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.commands import ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.engine.building import await_signal
from tests.worker.stage import (
    Flows,
    chain,
    config_on,
    ended_as,
    expect_alive,
    history,
    lawful,
    queue_drained,
    submitted,
    the_run,
    until_handled,
    working,
)


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    """What a fenced-out worker does not acknowledge comes again after two seconds."""
    return config_on(nats_server, consumer_ack_wait_sec=2.0, ack_progress_interval_sec=0.5)


class Stage:
    """`t1` is quick; `t2` hangs the first time it is executed and is quick afterwards; `t3` adds up."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.fences: list[int] = []
        self.hangs, self.go_on = threading.Event(), threading.Event()
        self.flows = Flows(steps=chain(self.t1, self.t2, self.t3))

    def t1(self, ctx: Any) -> int:
        self.executed.append("t1")
        self.fences.append(ctx.run_context.metadata["fence"])
        return 1

    def t2(self, ctx: Any, t1: int) -> int:
        self.executed.append("t2")
        self.fences.append(ctx.run_context.metadata["fence"])
        if not self.hangs.is_set():
            self.hangs.set()
            await_signal(self.go_on)
        return t1 + 1

    def t3(self, t1: int, t2: int) -> int:
        self.executed.append("t3")
        return t1 + t2


def lost(fence: int) -> ReportLoss:
    return ReportLoss(fence=fence, cause=LossCause.WORKER_LOST, losses_max=20, crashes_max=3)


async def test_finished_tasks_are_not_executed_again_and_attempts_count_on(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()
    async with (
        working(store.config, stage.flows, worker_id="first") as first,
        working(store.config, stage.flows, worker_id="second") as second,
    ):
        run_id = await submitted(store, "steps")
        with caplog.at_level(logging.WARNING, "pyoco_server.worker"):
            running = asyncio.create_task(first.run_once(timeout=20.0))
            await until(stage.hangs.is_set)
            await until(lambda: _is_running(store, run_id, "t2"))
            await apply(store, run_id, lost(1))
            await until_handled(second, run_id)
            ended = await ended_as(store, run_id, "COMPLETED")
            events = await history(store, run_id)
            # The first worker wakes up now, and finds that it has nothing to say any more.
            stage.go_on.set()
            assert await asyncio.wait_for(running, 20.0) == run_id
        assert stage.executed == ["t1", "t2", "t2", "t3"]
        assert stage.fences == [1, 1, 2]
        assert {name: record.attempt for name, record in ended.task_records.items()} == {
            "t1": 1,
            "t2": 2,
            "t3": 1,
        }
        assert (ended.task_records["t3"].output, ended.worker_id, ended.pyoco.losses) == (3, "second", 1)
        assert [record.message for record in caplog.records if "taken over" in record.message]
        assert await ended_as(store, run_id, "COMPLETED") == ended
        assert await history(store, run_id) == events
        await _handle_all(store, second)
        await expect_alive(store, first)


async def test_a_late_commit_of_the_old_worker_is_refused_while_the_new_one_works(store: Store) -> None:
    old, new = Stage(), Stage()
    async with working(store.config, old.flows) as first, working(store.config, new.flows) as second:
        run_id = await submitted(store, "steps")
        one = asyncio.create_task(first.run_once(timeout=20.0))
        await until(old.hangs.is_set)
        await until(lambda: _is_running(store, run_id, "t2"))
        await apply(store, run_id, lost(1))
        other = asyncio.create_task(second.run_once(timeout=20.0))
        await until(new.hangs.is_set)
        await until(lambda: _is_running(store, run_id, "t2"))
        held = await lawful(store, run_id)
        old.go_on.set()
        assert await asyncio.wait_for(one, 20.0) == run_id
        now = await lawful(store, run_id)
        assert (now.status, now.pyoco.commits) == ("RUNNING", held.pyoco.commits)
        new.go_on.set()
        assert await asyncio.wait_for(other, 20.0) == run_id
        await ended_as(store, run_id, "COMPLETED")
        assert "t3" not in old.executed
        assert new.executed == ["t2", "t3"]
        await _handle_all(store, second)


async def test_a_cancel_ends_a_run_whose_worker_is_lost_and_the_old_worker_cannot_undo_it(
    store: Store,
) -> None:
    stage = Stage()
    async with working(store.config, stage.flows) as worker:
        run_id = await submitted(store, "steps")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(stage.hangs.is_set)
        await cancel_run(store, run_id)
        await apply(store, run_id, lost(1))
        ended = await ended_as(store, run_id, "CANCELLED")
        stage.go_on.set()
        assert await asyncio.wait_for(running, 20.0) == run_id
        assert await ended_as(store, run_id, "CANCELLED") == ended
        await queue_drained(store)


async def test_a_result_that_was_not_kept_is_computed_again(store: Store) -> None:
    stage = Stage()

    def unkept() -> object:
        stage.executed.append("t1")
        return object()

    def second_of_two(ctx: Any) -> int:
        return stage.t2(ctx, 1)

    stage.flows = Flows(steps=chain(unkept, second_of_two))
    async with working(store.config, stage.flows) as first, working(store.config, stage.flows) as second:
        run_id = await submitted(store, "steps")
        running = asyncio.create_task(first.run_once(timeout=20.0))
        await until(stage.hangs.is_set)
        await until(lambda: _is_running(store, run_id, "t2"))
        await apply(store, run_id, lost(1))
        await until_handled(second, run_id)
        await ended_as(store, run_id, "COMPLETED")
        assert stage.executed == ["t1", "t2", "t1", "t2"]
        stage.go_on.set()
        await asyncio.wait_for(running, 20.0)
        await _handle_all(store, second)


async def _handle_all(store: Store, worker: Any) -> None:
    """The old job comes again after its ack wait, and is acknowledged for its number."""
    await worker.run_once(timeout=3.0)
    await queue_drained(store)


async def _is_running(store: Store, run_id: str, task: str) -> bool:
    run = await the_run(store, run_id)
    return task in run.tasks and run.tasks[task].state == "RUNNING"
