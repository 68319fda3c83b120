"""A cancel reaches the code that runs, and the run ends CANCELLED whether or not that code listens."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.store.store import Store
from pyoco_server.worker import threads
from tests.conftest import NatsServer, until
from tests.worker.slots.test_output import log_of
from tests.worker.stage import (
    Flows,
    chain,
    config_on,
    ended_as,
    expect_alive,
    letters,
    one_task,
    queue_drained,
    submitted,
    waiting,
    working,
)


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, cancel_grace_period_sec=0.3)


class Heedful:
    """A task that waits until it sees the cancel."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.saw_cancel = threading.Event()

    def __call__(self, ctx: Any) -> str:
        self.started.set()
        while not ctx.is_cancelled:
            threading.Event().wait(0.002)
        self.saw_cancel.set()
        return "stopped"


async def test_a_cancel_reaches_the_code_and_earlier_results_are_kept(store: Store) -> None:
    heedful = Heedful()
    flows = Flows(steps=chain(lambda: "kept", heedful, lambda: "never"))
    async with working(store.config, flows) as worker:
        run_id = await submitted(store, "steps")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(heedful.started.is_set)
        applied = await cancel_run(store, run_id, by="somebody")
        assert applied.after is not None
        assert applied.after.run.status == "CANCELLING"
        await until(heedful.saw_cancel.is_set)
        assert await asyncio.wait_for(running, 20.0) == run_id
        await queue_drained(store)
        ended = await ended_as(store, run_id, "CANCELLED")
        assert ended.tasks == {"t1": "SUCCEEDED", "t2": "CANCELLED", "t3": "CANCELLED"}
        assert ended.task_records["t1"].output == "kept"
        assert (ended.cancel_requested_by, ended.error) == ("somebody", None)
        assert await letters(store) == []
        await expect_alive(store, worker)


async def test_the_log_does_not_report_a_success_that_the_cancel_has_refused(store: Store) -> None:
    heedful = Heedful()
    async with working(store.config, Flows(ticker=one_task(heedful))) as worker:
        run_id = await submitted(store, "ticker")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(heedful.started.is_set)
        await cancel_run(store, run_id)
        assert await asyncio.wait_for(running, 20.0) == run_id
        await ended_as(store, run_id, "CANCELLED")
        printed = [line.message for line in await log_of(store, run_id)]
    assert "task only returned after the cancel request; its result is not recorded" in printed
    assert not any("succeeded" in line for line in printed)


async def test_code_that_raises_when_it_sees_the_cancel_does_not_make_it_a_failure(store: Store) -> None:
    started = threading.Event()

    def raises(ctx: Any) -> None:
        started.set()
        while not ctx.is_cancelled:
            threading.Event().wait(0.002)
        raise RuntimeError("interrupted")

    async with working(store.config, Flows(raises=one_task(raises))) as worker:
        run_id = await submitted(store, "raises")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        await cancel_run(store, run_id)
        assert await asyncio.wait_for(running, 20.0) == run_id
        await ended_as(store, run_id, "CANCELLED")
        assert await letters(store) == []


async def test_an_async_task_is_interrupted_where_it_waits(store: Store) -> None:
    started = threading.Event()

    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    async with working(store.config, Flows(waits=one_task(waits))) as worker:
        run_id = await submitted(store, "waits")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        await cancel_run(store, run_id)
        assert await asyncio.wait_for(running, 20.0) == run_id
        await ended_as(store, run_id, "CANCELLED")


async def test_stubborn_code_is_left_behind_after_the_grace(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    started, release = threading.Event(), threading.Event()
    async with working(store.config, Flows(stubborn=one_task(waiting(started, release)))) as worker:
        run_id = await submitted(store, "stubborn")
        with caplog.at_level(logging.ERROR, "pyoco_server.worker"):
            running = asyncio.create_task(worker.run_once(timeout=20.0))
            await until(started.is_set)
            await until(lambda: _is_recorded_running(store, run_id))
            await cancel_run(store, run_id)
            assert await asyncio.wait_for(running, 20.0) == run_id
        await queue_drained(store)
        ended = await ended_as(store, run_id, "CANCELLED")
        assert ended.tasks == {"only": "CANCELLED"}
        told = [getattr(record, "err_id", None) for record in caplog.records]
        assert told.count("ERR-PYOCO-0021") == 1
        # What it returns now is nobody's result any more.
        release.set()
        await expect_alive(store, worker)
        assert (await ended_as(store, run_id, "CANCELLED")) == ended


async def test_a_cancel_between_the_claim_and_the_first_task_keeps_it_from_starting(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = threading.Event()
    loop = asyncio.get_running_loop()
    runs: list[str] = []
    perform = threads.Threads._execute

    def after_the_cancel(performer: Any, engine: Any, *rest: Any) -> Any:
        asyncio.run_coroutine_threadsafe(cancel_run(store, runs[0]), loop).result(10)
        assert _until_it_knows(engine, runs[0])
        return perform(performer, engine, *rest)

    monkeypatch.setattr(threads.Threads, "_execute", after_the_cancel)
    async with working(store.config, Flows(late=one_task(executed.set))) as worker:
        runs.append(await submitted(store, "late"))
        assert await worker.run_once(timeout=20.0) == runs[0]
        await queue_drained(store)
        await ended_as(store, runs[0], "CANCELLED")
        assert not executed.is_set()


async def test_a_cancel_during_the_last_task_does_not_leave_it_cancelling(store: Store) -> None:
    """The code ends well, the end meets the cancel in the log, and cancel wins."""
    loop = asyncio.get_running_loop()
    runs: list[str] = []

    def cancels_itself() -> str:
        asyncio.run_coroutine_threadsafe(cancel_run(store, runs[0]), loop).result(10)
        return "finished all the same"

    async with working(store.config, Flows(last=one_task(cancels_itself))) as worker:
        runs.append(await submitted(store, "last"))
        assert await worker.run_once(timeout=20.0) == runs[0]
        await queue_drained(store)
        await ended_as(store, runs[0], "CANCELLED")


def _until_it_knows(engine: Any, run_id: str) -> bool:
    """A cancel pushed before the run has begun is remembered by the engine."""
    for _ in range(5_000):
        if run_id in engine._registry._early:
            return True
        threading.Event().wait(0.001)
    return False


async def _is_recorded_running(store: Store, run_id: str) -> bool:
    snapshot = await store.runs.snapshots.get(run_id)
    return snapshot is not None and snapshot.tasks.get("only") == "RUNNING"
