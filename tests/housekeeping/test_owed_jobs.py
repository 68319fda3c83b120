"""Runs that wait for a worker and have no job in the queue get one: later and later, where it helps."""

from __future__ import annotations

import time

import pytest

from pyoco_server.housekeeping import owed_jobs
from pyoco_server.housekeeping.owed_jobs import OwedJobs
from pyoco_server.lifecycle.commands import ClaimRun
from pyoco_server.lifecycle.events import CancelRequested
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.resources import ensure_consumer
from pyoco_server.store.runs.log import new_commit_id
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.worker.stage import (
    commits_of,
    ended_as,
    jobs_queued,
    lawful,
    queue_drained,
    submitted,
    the_run,
    working,
)


class Clock:
    """Tells housekeeping what time it is: so long after now."""

    def __init__(self) -> None:
        self.ahead_sec = 0.0

    def now(self) -> float:
        return time.time() + self.ahead_sec


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(owed_jobs, "clock", fake)
    return fake


@pytest.fixture
async def owed(store: Store, read_model: ReadModel) -> OwedJobs:
    await ensure_consumer(store.jetstream, store.config, "default")
    return OwedJobs(store, read_model)


async def lose_jobs(store: Store) -> None:
    await store.jetstream.api(f"STREAM.PURGE.{store.config.work_stream}")


async def given(owed: OwedJobs, clock: Clock, *, ahead_sec: float) -> int:
    """How many jobs a round gives out that long from now."""
    clock.ahead_sec = ahead_sec
    await owed._read_model.catch_up()
    return await owed.look()


async def test_a_run_whose_job_is_gone_gets_a_new_one_and_is_executed(
    store: Store, owed: OwedJobs, clock: Clock
) -> None:
    run_id = await submitted(store)
    await lose_jobs(store)
    assert await given(owed, clock, ahead_sec=59.0) == 0
    assert await given(owed, clock, ahead_sec=61.0) == 1
    assert (await commits_of(store, run_id))[-1] == ["RunRequeued"]
    assert (await the_run(store, run_id)).job_no == 2
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
    await ended_as(store, run_id, "COMPLETED")


async def test_the_next_one_comes_after_twice_as_long(store: Store, owed: OwedJobs, clock: Clock) -> None:
    await submitted(store)
    await lose_jobs(store)
    assert await given(owed, clock, ahead_sec=61.0) == 1
    for wait_sec in (120.0, 240.0):
        await lose_jobs(store)
        # It owes since now; a round each second must not forget how often it was given one.
        for early_sec in (1.0, 30.0, 61.0, wait_sec - 1.0):
            assert await given(owed, clock, ahead_sec=early_sec) == 0
        assert await given(owed, clock, ahead_sec=wait_sec + 1.0) == 1


async def test_a_run_that_went_on_begins_with_the_first_wait_again(
    store: Store, owed: OwedJobs, clock: Clock
) -> None:
    run_id = await submitted(store)
    await lose_jobs(store)
    assert await given(owed, clock, ahead_sec=61.0) == 1
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
    assert await given(owed, clock, ahead_sec=200.0) == 0
    assert owed._given == {}


async def test_no_job_is_given_while_jobs_wait_at_the_consumer(
    store: Store, owed: OwedJobs, clock: Clock
) -> None:
    await submitted(store)
    assert await given(owed, clock, ahead_sec=1_000_000.0) == 0
    assert await jobs_queued(store) == 1


async def passed_over(store: Store, owed: OwedJobs, clock: Clock) -> str:
    """A run without a job in line, and behind its place another one whose job was stored long after."""
    owed._after_sec = 0.2
    run_id = await submitted(store)
    late = (await the_run(store, run_id)).updated_at + owed._after_sec
    await until(lambda: time.time() > late + 0.1)
    return run_id


async def test_a_lost_job_behind_a_backlog_is_published_again(
    store: Store, owed: OwedJobs, clock: Clock
) -> None:
    owed._patience_sec = 0.3
    lost = await passed_over(store, owed, clock)
    await lose_jobs(store)
    others = [await submitted(store) for _ in range(3)]
    await until(lambda: given(owed, clock, ahead_sec=100.0))
    assert (await commits_of(store, lost))[-1] == ["RunRequeued"]
    assert [(await the_run(store, run_id)).job_no for run_id in (lost, *others)] == [2, 1, 1, 1]
    assert await jobs_queued(store) == 4


async def test_a_delivery_that_may_come_back_is_not_replaced_by_a_job_at_the_end_of_the_line(
    store: Store, owed: OwedJobs, clock: Clock
) -> None:
    delivered = await passed_over(store, owed, clock)
    puller = await store.queue.pull(["default"])
    delivery = await puller.next(5.0)
    assert delivery is not None
    await puller.pause()  # it must not take the next job
    await submitted(store)
    assert owed._patience_sec == 60.0  # longer than a delivery may be silent
    assert (await given(owed, clock, ahead_sec=100.0), await given(owed, clock, ahead_sec=200.0)) == (0, 0)
    assert set(owed._passed_since) == {delivered}
    delivery.nak()
    assert (await the_run(store, delivered)).job_no == 1
    await puller.close()


async def test_no_job_is_given_where_nobody_ever_asked_for_one(
    store: Store, owed: OwedJobs, clock: Clock
) -> None:
    """A tag without a consumer: its jobs lie in the queue, and more of them would help nobody."""
    run_id = await submitted(store, tag="unserved")
    assert await given(owed, clock, ahead_sec=61.0) == 0
    assert (await jobs_queued(store), (await the_run(store, run_id)).job_no) == (1, 1)


async def test_other_tags_are_judged_by_themselves(store: Store, owed: OwedJobs, clock: Clock) -> None:
    await ensure_consumer(store.jetstream, store.config, "other")
    lost = await submitted(store, tag="other")
    await lose_jobs(store)
    await submitted(store)
    assert await given(owed, clock, ahead_sec=61.0) == 1
    assert (await the_run(store, lost)).job_no == 2


async def test_a_run_that_is_held_or_over_is_owed_nothing(store: Store, owed: OwedJobs, clock: Clock) -> None:
    held = await submitted(store)
    await apply(store, held, ClaimRun(worker_id="w", instance_id="w.1", job_no=1))
    async with working(store.config) as worker:
        await lose_jobs(store)
        over = await submitted(store)
        assert await worker.run_once(timeout=20.0) == over
        await queue_drained(store)
    assert await given(owed, clock, ahead_sec=1_000_000.0) == 0
    assert (await lawful(store, held)).status == "RUNNING"


async def test_a_cancel_that_nobody_concluded_is_concluded(
    store: Store, owed: OwedJobs, read_model: ReadModel
) -> None:
    run_id = await submitted(store)
    stored = await store.runs.load(run_id)
    assert stored is not None
    await store.runs.append(stored, (CancelRequested(at=time.time()),), new_commit_id())
    await read_model.catch_up()
    assert await owed.conclude_stuck_cancels() == 1
    await ended_as(store, run_id, "CANCELLED")
    await read_model.catch_up()
    assert await owed.conclude_stuck_cancels() == 0
