"""Schedules whose time has come: one run for each instant, whoever else is at it, whatever dies between."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, Unavailable
from pyoco_server.housekeeping import due_schedules
from pyoco_server.housekeeping.due_schedules import DueSchedules
from pyoco_server.jetstream.errors import BrokerRefused, WrongSequence
from pyoco_server.lifecycle.commands import CancelRun, DiscardRun
from pyoco_server.operations import schedules
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.operations.occurrences import NO_WORKFLOW
from pyoco_server.operations.runs import submit
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.schedules.record import Schedule, ScheduleStatus, planned_run_id
from pyoco_server.schedules.timing import ScheduleKind, Timing, next_instant
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.housekeeping.test_owed_jobs import Clock
from tests.http_api.serving import serving
from tests.worker.stage import jobs_queued, lawful, the_run

WORKFLOW = b"flow: {graph: a, defaults: {x: 1}}\ntasks: {a: {use: demo/a}}\n"
HOUR_SEC = 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(due_schedules, "clock", fake)
    return fake


@pytest.fixture
def due(store: Store, read_model: ReadModel) -> DueSchedules:
    return DueSchedules(store, read_model)


async def made(store: Store, **members: Any) -> Schedule:
    """Every hour, from in an hour on, unless told otherwise."""
    now = time.time()
    hourly = {
        "kind": ScheduleKind.INTERVAL,
        "interval_seconds": HOUR_SEC,
        "start_at": round(now + HOUR_SEC, 6),
    }
    wanted = Submission(flow_name="nightly", tenant_id="acme")
    return await schedules.create(store, wanted, Timing(**(members or hourly)), WORKFLOW, now=now)


async def as_stored(store: Store, schedule: Schedule) -> Schedule:
    stored = await store.schedules.get(schedule.schedule_id)
    assert stored is not None
    return stored.schedule


async def runs_of(store: Store, read_model: ReadModel, schedule: Schedule) -> set[str]:
    found = await schedules.runs_of(store, read_model, schedule.schedule_id, 200, tenant_id="acme")
    return {run.run_id for run in found}


async def test_a_run_begins_when_its_time_has_come(
    store: Store, read_model: ReadModel, due: DueSchedules, clock: Clock
) -> None:
    schedule = await made(store)
    assert schedule.next_at is not None
    assert (await due.look(), await jobs_queued(store)) == (0, 0)
    clock.ahead_sec = HOUR_SEC + 1
    assert (await due.look(), await due.look(), await jobs_queued(store)) == (1, 0, 1)
    run_id = planned_run_id(schedule.schedule_id, schedule.next_at)
    run = await lawful(store, run_id)
    assert (run.flow_name, run.tenant_id, run.params) == ("nightly", "acme", {"x": 1})
    assert (await the_run(store, run_id)).schedule_id == schedule.schedule_id
    assert await runs_of(store, read_model, schedule) == {run_id}
    moved = await as_stored(store, schedule)
    assert (moved.last_at, moved.last_run_id, moved.dispatch_count) == (schedule.next_at, run_id, 1)
    assert moved.next_at == pytest.approx(schedule.next_at + HOUR_SEC, abs=0.001)
    assert moved.last_submitted_at == pytest.approx(clock.now(), abs=60)
    clock.ahead_sec = 2 * HOUR_SEC + 1
    assert await due.look() == 1
    assert len(await runs_of(store, read_model, schedule)) == 2


async def test_what_is_due_once_is_completed_and_kept_for_a_while(
    store: Store, due: DueSchedules, clock: Clock
) -> None:
    schedule = await made(store, kind=ScheduleKind.ONCE, run_at=round(time.time() + HOUR_SEC, 6))
    clock.ahead_sec = 10 * HOUR_SEC
    assert (await due.look(), await due.look()) == (1, 0)
    ended = await as_stored(store, schedule)
    assert (ended.status, ended.next_at, ended.dispatch_count) == (ScheduleStatus.COMPLETED, None, 1)
    assert await store.schedules.begins_with(schedule.schedule_id) is None
    assert [one.schedule_id for one in await store.schedules.all()] == [schedule.schedule_id]
    await schedules.delete(store, schedule.schedule_id, tenant_id=None)
    assert await store.schedules.all() == []


async def test_of_what_was_missed_the_latest_is_made_up(
    store: Store, read_model: ReadModel, due: DueSchedules, clock: Clock
) -> None:
    schedule = await made(store)
    assert schedule.next_at is not None
    clock.ahead_sec = 49.5 * HOUR_SEC
    assert (await due.look(), await due.look()) == (1, 0)
    moved = await as_stored(store, schedule)
    assert moved.last_at == pytest.approx(schedule.next_at + 48 * HOUR_SEC, abs=0.001)
    assert moved.next_at == pytest.approx(schedule.next_at + 49 * HOUR_SEC, abs=0.001)
    assert len(await runs_of(store, read_model, schedule)) == 1


async def test_two_keepers_at_once_make_one_run(store: Store, read_model: ReadModel, clock: Clock) -> None:
    several = [await made(store) for _ in range(5)]
    keepers = [DueSchedules(store, read_model) for _ in range(4)]
    clock.ahead_sec = 10.5 * HOUR_SEC
    await asyncio.gather(*(keeper.look() for keeper in keepers))
    for schedule in several:
        assert len(await runs_of(store, read_model, schedule)) == 1
        assert (await as_stored(store, schedule)).dispatch_count == 1
    assert await jobs_queued(store) == 5


async def test_a_crash_between_the_run_and_its_record_makes_no_second_run(
    store: Store, read_model: ReadModel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = await made(store)
    clock.ahead_sec = HOUR_SEC + 1

    write = store.schedules.replace

    async def dies(record: Schedule, *, revision: int) -> int:
        if record.last_run_id is None:
            return await write(record, revision=revision)
        raise RuntimeError("killed")

    with monkeypatch.context() as before_it_is_written_down:
        before_it_is_written_down.setattr(store.schedules, "replace", dies)
        assert await DueSchedules(store, read_model).look() == 0
    [run_id] = await runs_of(store, read_model, schedule)
    assert (await as_stored(store, schedule)).dispatch_count == 0
    assert await DueSchedules(store, read_model).look() == 1
    assert await runs_of(store, read_model, schedule) == {run_id}
    assert (await as_stored(store, schedule)).last_run_id == run_id
    assert await jobs_queued(store) == 1


async def test_a_run_that_was_discarded_is_begun_anew(
    store: Store, read_model: ReadModel, due: DueSchedules, clock: Clock
) -> None:
    """Its job could not be published: nobody has run it."""
    schedule = await made(store)
    begins_with = await store.schedules.begins_with(schedule.schedule_id)
    assert begins_with is not None
    first = await schedules.begin_planned(store, schedule, begins_with)
    await apply(store, first, DiscardRun(reason="no broker"))
    clock.ahead_sec = HOUR_SEC + 1
    assert await due.look() == 1
    assert await runs_of(store, read_model, schedule) == {
        planned_run_id(schedule.schedule_id, schedule.next_at or 0.0, 1)
    }


async def test_a_schedule_deleted_by_others_begins_nothing(
    store: Store, due: DueSchedules, clock: Clock
) -> None:
    schedule = await made(store)
    await due.look()  # has heard of it
    await schedules.delete(store, schedule.schedule_id, tenant_id="acme")
    clock.ahead_sec = HOUR_SEC + 1
    assert (await due.look(), await jobs_queued(store)) == (0, 0)
    assert await store.schedules.begins_with(schedule.schedule_id) is None


async def test_a_delete_and_a_run_at_once_do_not_bring_it_back(
    store: Store, read_model: ReadModel, clock: Clock
) -> None:
    schedule = await made(store)
    clock.ahead_sec = HOUR_SEC + 1
    await asyncio.gather(
        DueSchedules(store, read_model).look(), schedules.delete(store, schedule.schedule_id, tenant_id=None)
    )
    assert await store.schedules.all() == []
    clock.ahead_sec = 5 * HOUR_SEC
    assert await DueSchedules(store, read_model).look() == 0


async def test_no_run_begins_after_a_delete_was_answered(
    store: Store, read_model: ReadModel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delete comes when the record has been read and the run has not been begun."""
    schedule = await made(store)
    clock.ahead_sec = HOUR_SEC + 1
    read, answered_at = store.schedules.begins_with, 0

    async def deleted_meanwhile(schedule_id: str) -> Any:
        nonlocal answered_at
        begins_with = await read(schedule_id)
        if not answered_at:
            answered_at = -1
            await schedules.delete(store, schedule.schedule_id, tenant_id=None)
            answered_at = await store.jetstream.last_seq(store.config.events_stream)
        return begins_with

    monkeypatch.setattr(store.schedules, "begins_with", deleted_meanwhile)
    await DueSchedules(store, read_model).look()
    assert await store.schedules.all() == []
    assert answered_at == await store.jetstream.last_seq(store.config.events_stream)


async def test_a_keeper_that_dies_before_it_begins_leaves_a_run_that_is_begun_once(
    store: Store, read_model: ReadModel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever came due since: first the run that was decided on, then the latest."""
    schedule = await made(store)
    clock.ahead_sec = HOUR_SEC + 1

    async def dies(*_: object, **__: object) -> Any:
        raise RuntimeError("killed")

    with monkeypatch.context() as before_the_run:
        before_the_run.setattr(schedules, "submit", dies)
        assert await DueSchedules(store, read_model).look() == 0
    assert (await as_stored(store, schedule)).beginning_at == schedule.next_at
    clock.ahead_sec = 9 * HOUR_SEC + 1
    keeper = DueSchedules(store, read_model)
    assert (await keeper.look(), await keeper.look(), await keeper.look()) == (1, 1, 0)
    assert len(await runs_of(store, read_model, schedule)) == 2
    moved = await as_stored(store, schedule)
    assert (moved.beginning_at, moved.dispatch_count) == (None, 2)


async def test_a_run_whose_job_was_not_published_gets_it_in_the_next_round(
    store: Store, clock: Clock, due: DueSchedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = await made(store)
    clock.ahead_sec = HOUR_SEC + 1

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("the broker is away")

    with monkeypatch.context() as while_away:
        while_away.setattr(store.queue, "publish", away)
        assert (await due.look(), await jobs_queued(store)) == (0, 0)
    assert (await due.look(), await due.look(), await jobs_queued(store)) == (1, 0, 1)
    assert (await as_stored(store, schedule)).dispatch_count == 1


async def test_one_that_cannot_be_begun_does_not_stop_the_others(
    store: Store, read_model: ReadModel, due: DueSchedules, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = await made(store), await made(store)
    really_submit = submit.submit

    async def refuses(where: Store, submission: Any, **others: Any) -> Any:
        if submission.schedule_id == bad.schedule_id:
            raise BrokerRefused("no room")
        return await really_submit(where, submission, **others)

    clock.ahead_sec = HOUR_SEC + 1
    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(schedules, "submit", refuses)
        assert (await due.look(), await due.look()) == (1, 0)
    assert len(await runs_of(store, read_model, good)) == 1
    noted = await as_stored(store, bad)
    assert (noted.last_error, noted.next_at) == (BrokerRefused.plain, bad.next_at)
    assert await due.look() == 1
    assert (await as_stored(store, bad)).last_error is None


async def test_one_without_its_workflow_says_so_and_moves_on(
    store: Store, due: DueSchedules, clock: Clock
) -> None:
    schedule = await made(store)
    await store.schedules._bucket.delete(f"{schedule.schedule_id}.run")
    clock.ahead_sec = HOUR_SEC + 1
    assert (await due.look(), await due.look()) == (0, 0)
    moved = await as_stored(store, schedule)
    assert (moved.last_error, moved.dispatch_count) == (NO_WORKFLOW, 0)
    assert moved.next_at == pytest.approx((schedule.next_at or 0.0) + HOUR_SEC, abs=0.001)


async def test_a_record_that_cannot_be_read_is_passed_over(
    store: Store, due: DueSchedules, clock: Clock
) -> None:
    await store.schedules._bucket.put("broken", b"{", revision=0)
    await made(store)
    clock.ahead_sec = HOUR_SEC + 1
    assert (await due.look(), len(await store.schedules.all())) == (1, 1)


async def test_a_record_is_changed_by_compare_and_set_only(store: Store) -> None:
    schedule = await made(store)
    stored = await store.schedules.get(schedule.schedule_id)
    assert stored is not None
    await store.schedules.replace(schedule, revision=stored.revision)
    with pytest.raises(WrongSequence):
        await store.schedules.replace(schedule, revision=stored.revision)
    with pytest.raises(WrongSequence):
        await store.schedules.delete(schedule.schedule_id, revision=stored.revision)


async def test_another_try_of_a_run_is_listed_with_it(
    store: Store, read_model: ReadModel, due: DueSchedules, clock: Clock
) -> None:
    schedule = await made(store)
    clock.ahead_sec = HOUR_SEC + 1
    await due.look()
    [run_id] = await runs_of(store, read_model, schedule)
    with pytest.raises(Conflict):
        await retry(store, run_id, RetryRequest(), ANONYMOUS)
    await apply(store, run_id, CancelRun())
    again = await retry(store, run_id, RetryRequest(), ANONYMOUS)
    assert await runs_of(store, read_model, schedule) == {run_id, again.run.run_id}


async def test_a_gateway_started_anew_goes_on_where_the_last_one_ended(
    store: Store, config: NatsBackendConfig
) -> None:
    schedule = await made(
        store, kind=ScheduleKind.INTERVAL, interval_seconds=0.2, start_at=round(time.time() + 0.2, 6)
    )
    for wanted in (2, 4):
        async with serving(config) as client:
            path = f"/schedules/{schedule.schedule_id}/runs"

            async def enough(client: Any = client, path: str = path, wanted: int = wanted) -> bool:
                return len((await client.get(path)).json()) >= wanted

            await until(enough)
    async with serving(config) as client:
        await client.delete(f"/schedules/{schedule.schedule_id}")
        runs = (await client.get("/runs", params={"limit": 200})).json()
    # Every run is the first of an instant of its own.
    instants = [schedule.next_at or 0.0]
    while instants[-1] < time.time():
        instants.append(next_instant(schedule.timing, instants[-1]) or math.inf)
    planned = {planned_run_id(schedule.schedule_id, instant) for instant in instants}
    assert {run["run_id"] for run in runs} <= planned
    assert len(runs) >= 4
