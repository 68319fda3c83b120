"""What time alone changes in a run happens at its instant, once, and whether or not a round is near."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping import Housekeeper, due_runs
from pyoco_server.housekeeping.due_runs import DueRuns
from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.events import TaskFailed
from pyoco_server.lifecycle.graph import Graph, GraphTask, OnTimeout, RetryPolicy
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import Driver, RunStatus, TaskStatus
from pyoco_server.operations.runs.apply import Applied, apply
from pyoco_server.operations.runs.pass_time import pass_time
from pyoco_server.operations.runs.submit import submit
from pyoco_server.read_model.housekeeping_queries import HousekeepingQueries
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import new_commit_id
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.housekeeping.test_owed_jobs import Clock
from tests.worker.stage import (
    a_submission,
    config_on,
    count_of,
    ended_as,
    jobs_queued,
    lawful,
    submitted,
    the_run,
)

HOUR_SEC = 3600.0
CLAIM = c.ClaimRun(worker_id="w", instance_id="w.1", job_no=1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(due_runs, "clock", fake)
    return fake


async def driven(store: Store, *tasks: GraphTask) -> str:
    """A client-driven run, started."""
    graph = Graph(id="g", version=1, nodes=tasks)
    stored = await submit(store, a_submission("graph:g", driver=Driver.CLIENT, graph=graph))
    await asked(store, stored.run.run_id, c.StartRun())
    return str(stored.run.run_id)


async def asked(store: Store, run_id: str, *commands: c.Command, **how: Any) -> Applied:
    applied = await apply(store, run_id, *commands, **how)
    assert applied.refused is None, applied.refused
    return applied


async def looked(due: DueRuns, read_model: ReadModel) -> int:
    await read_model.catch_up()
    return await due.look()


def take(attempt: int = 1) -> c.TakeTask:
    return c.TakeTask(task="a", attempt=attempt, worker_id="w")


async def test_a_timeout_happens_when_its_time_has_come_and_once(
    store: Store, read_model: ReadModel, clock: Clock
) -> None:
    due = DueRuns(store, read_model)
    run_id = await driven(store, GraphTask(id="a", timeout_sec=HOUR_SEC))
    await asked(store, run_id, take())
    assert await looked(due, read_model) == 0
    clock.ahead_sec = HOUR_SEC + 1
    assert await looked(due, read_model) == 1
    assert await looked(due, read_model) == 0
    await ended_as(store, run_id, "FAILED")
    run = await the_run(store, run_id)
    assert (run.tasks["a"].code, run.failed_task) == ("ERR_TIMEOUT", "a")
    (commit,) = (await store.runs.history(run_id))[-1:]
    assert commit.meta is not None
    assert commit.meta.actor is not None
    assert (commit.meta.actor.kind, commit.meta.actor.id) == ("system", "housekeeping")
    await lawful(store, run_id)


async def test_two_who_look_at_once_make_it_happen_once(
    store: Store, read_model: ReadModel, clock: Clock
) -> None:
    run_ids = [await driven(store, GraphTask(id="a", timeout_sec=60)) for _ in range(20)]
    for run_id in run_ids:
        await asked(store, run_id, take())
    clock.ahead_sec = 61
    one, other = DueRuns(store, read_model), DueRuns(store, read_model)
    await asyncio.gather(looked(one, read_model), looked(other, read_model))
    for run_id in run_ids:
        assert await count_of(store, run_id, "TaskFailed") == 1


async def test_a_parked_run_gets_a_job_when_its_wait_is_over(
    store: Store, read_model: ReadModel, clock: Clock
) -> None:
    due = DueRuns(store, read_model)
    run_id = await submitted(store)
    wait = c.PutTaskWaiting(
        fence=1,
        task="ask",
        attempt=1,
        wait_key="ask",
        deadline_at=time.time() + HOUR_SEC,
        on_timeout=OnTimeout.SUCCEED,
    )
    await asked(store, run_id, CLAIM, wait, c.ParkRun(fence=1, waiting=["ask"]))
    before = await jobs_queued(store)
    clock.ahead_sec = HOUR_SEC + 1
    assert await looked(due, read_model) == 1
    run = await the_run(store, run_id)
    assert (run.parked, run.job_no, run.tasks["ask"].state) == (False, 2, TaskStatus.SUCCEEDED)
    assert await jobs_queued(store) == before + 1


async def test_a_cancelled_run_is_not_due_any_more(store: Store, read_model: ReadModel, clock: Clock) -> None:
    due = DueRuns(store, read_model)
    run_id = await driven(store, GraphTask(id="a", timeout_sec=60))
    await asked(store, run_id, take(), c.CancelRun())
    clock.ahead_sec = 61
    assert await looked(due, read_model) == 0
    assert read_model.housekeeping.next_due(after=0.0) is None
    await ended_as(store, run_id, "CANCELLED")


async def test_what_is_due_to_the_index_alone_is_asked_about_once(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's hand in the log: nothing that the core decides leads there, and it must not keep us busy."""
    due = DueRuns(store, read_model)
    run_id = await submitted(store)
    stored = await store.runs.load(run_id)
    odd = TaskFailed(at=1.0, task="x", attempt=1, started_at=1.0, error="", will_retry=True, retry_at=2.0)
    await store.runs.append(stored, (odd,), new_commit_id())
    asked_about: list[str] = []

    async def counted(store: Store, run_id: str, at: float) -> Applied:
        asked_about.append(run_id)
        return await pass_time(store, run_id, at)

    monkeypatch.setattr(due_runs, "pass_time", counted)
    for _ in range(3):
        assert await looked(due, read_model) == 0
    assert asked_about == [run_id]
    await asked(store, run_id, c.AddTag(tag="changed", tags_max=9))
    await looked(due, read_model)
    assert asked_about == [run_id] * 2
    # Not for ever: it may have been a clock that was set back between the index and the decision.
    monkeypatch.setattr(due_runs, "SKIP_SEC", 0.0)
    await asked(store, run_id, c.AddTag(tag="again", tags_max=9))
    for _ in range(2):
        await looked(due, read_model)
    assert asked_about == [run_id] * 4


async def test_a_run_that_is_heard_of_during_a_look_and_due_already_keeps_its_timer(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await driven(store, GraphTask(id="a", timeout_sec=0.001))
    due = DueRuns(store, read_model)
    found = HousekeepingQueries.due

    def and_then_one_is_heard_of(queries: HousekeepingQueries, *, until: float, limit: int) -> list[Run]:
        """The feed brings it after the index was asked: it is due before the instant that was asked for."""
        before = found(queries, until=until, limit=limit)
        due._on_commit(None, replace(heard, due={"a": until - 0.01}), ())
        return before

    heard = await the_run(store, run_id)
    monkeypatch.setattr(HousekeepingQueries, "due", and_then_one_is_heard_of)
    woken = asyncio.Event()
    due.on_due(woken.set)
    await due.look()
    async with asyncio.timeout(10):
        await woken.wait()
    due.stop()


class TestBetweenRounds:
    """With rounds an hour apart, only the timer can be what moves these."""

    @pytest.fixture
    def config(self, nats_server: NatsServer) -> NatsBackendConfig:
        return config_on(nats_server, housekeeping_interval_sec=HOUR_SEC)

    @pytest.fixture
    async def keeper(self, store: Store, read_model: ReadModel) -> AsyncIterator[Housekeeper]:
        keeper = Housekeeper(store, read_model)
        keeper.start()
        # Not before the lease is stored: a round would write at the same revision, and lose it.
        await until(lambda: keeper.is_holder and keeper._revision)
        await keeper.round()
        yield keeper
        await keeper.stop()

    async def state_of(self, store: Store, run_id: str) -> TaskStatus:
        return (await the_run(store, run_id)).tasks["a"].state

    async def fails(self, store: Store, run_id: str) -> None:
        async def has_failed() -> bool:
            return (await the_run(store, run_id)).status is RunStatus.FAILED

        await until(has_failed)

    @pytest.mark.usefixtures("keeper")
    async def test_a_backoff_ends_at_its_instant(self, store: Store) -> None:
        retry = RetryPolicy(max_attempts=3, backoff_sec=0.2)
        run_id = await driven(store, GraphTask(id="a", retry=retry))
        for attempt in (1, 2):
            fail = c.FailClientTask(task="a", code="E", message="no")
            await asked(store, run_id, take(attempt), fail)

            async def is_ready() -> bool:
                return await self.state_of(store, run_id) is TaskStatus.READY

            await until(is_ready)
        assert await count_of(store, run_id, "TaskReadied") == 3

    @pytest.mark.usefixtures("keeper")
    async def test_one_that_comes_later_and_is_due_earlier_is_seen_to_first(self, store: Store) -> None:
        patient = await driven(store, GraphTask(id="a", timeout_sec=HOUR_SEC))
        await asked(store, patient, take())
        hasty = await driven(store, GraphTask(id="a", timeout_sec=0.1))
        await asked(store, hasty, take())
        await self.fails(store, hasty)
        assert await self.state_of(store, patient) is TaskStatus.RUNNING

    async def test_what_was_due_before_it_began_is_seen_to_at_the_start(
        self, store: Store, read_model: ReadModel
    ) -> None:
        run_id = await driven(store, GraphTask(id="a", timeout_sec=0.05))
        await asked(store, run_id, take(), at=time.time() - 60)
        keeper = Housekeeper(store, read_model)
        keeper.start()
        try:
            await self.fails(store, run_id)
        finally:
            await keeper.stop()

    @pytest.mark.usefixtures("keeper")
    async def test_one_who_does_not_hold_the_lease_leaves_it_to_the_holder(
        self, store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Housekeeper(store, read_model)
        heard: list[bool] = []

        async def never() -> int:
            heard.append(True)
            return 0

        def on_due() -> None:
            heard.append(other.is_holder)
            other._timer.wake()

        other._due_runs.on_due(on_due)
        monkeypatch.setattr(other._due_runs, "look", never)
        other._timer.start()
        run_id = await driven(store, GraphTask(id="a", timeout_sec=0.05))
        await asked(store, run_id, take())
        await self.fails(store, run_id)
        await until(lambda: heard)
        await other.stop()
        assert not any(heard)
