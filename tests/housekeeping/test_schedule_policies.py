"""Policies of schedules on the real broker: overlaps, outages, pauses, edits and backfills."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pyoco_server.errors import Conflict, Invalid, RevisionConflict, Unavailable
from pyoco_server.housekeeping import due_schedules
from pyoco_server.housekeeping.due_schedules import DueSchedules
from pyoco_server.lifecycle.commands import CancelRun, ClaimRun, ConfirmCancelled
from pyoco_server.operations import occurrences, schedule_edits, schedules
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.operations.schedule_edits import ScheduleChanges
from pyoco_server.operations.schedules import Options
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.schedules.record import (
    CatchUp,
    Outcome,
    Overlap,
    Policies,
    Schedule,
    ScheduleStatus,
    SkipReason,
    StartOrigin,
    planned_run_id,
)
from pyoco_server.schedules.timing import ScheduleKind, Timing, next_instants
from pyoco_server.store.store import Store
from tests.worker.stage import jobs_queued, the_run

# The clock of these tests: a schedule begins at 1000 after it.
BEGIN = 2_000_000_000.0
STEP = 100.0


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.at = BEGIN

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TestClock:
    fake = TestClock()
    for module in (due_schedules, schedule_edits):
        monkeypatch.setattr(module, "clock", fake)
    return fake


@pytest.fixture
def due(store: Store, read_model: ReadModel) -> DueSchedules:
    return DueSchedules(store, read_model)


async def made(store: Store, overlap: str = "allow", catch_up: str = "last", **more: Any) -> Schedule:
    """Every 100 seconds, from 1000 on."""
    within = 500.0 if catch_up == "all_within" else None
    policies = Policies(overlap=Overlap(overlap), catch_up=CatchUp(catch_up), catch_up_within_seconds=within)
    timing = Timing(kind=ScheduleKind.INTERVAL, interval_seconds=STEP, start_at=BEGIN + 1000)
    wanted = Submission(flow_name="noop", tenant_id="acme")
    options = Options(policies=policies, **more)
    return await schedules.create(store, wanted, timing, None, options, now=BEGIN)


async def as_stored(store: Store, schedule: Schedule) -> Schedule:
    return await schedules.get(store, schedule.schedule_id, tenant_id="acme")


async def told(store: Store, schedule: Schedule) -> list[tuple[float, float, str]]:
    """The history, the oldest first: first and last occurrence after the begin, and the run or the reason."""
    found, _ = await occurrences.page(store, schedule.schedule_id, 200, None, tenant_id="acme")
    return [
        (one.first_at - BEGIN, one.last_at - BEGIN, one.reason or one.outcome.value)
        for one in reversed(found)
    ]


def run_at(schedule: Schedule, seconds: float) -> str:
    return planned_run_id(schedule.schedule_id, BEGIN + seconds)


async def end(store: Store, run_id: str) -> None:
    await apply(store, run_id, CancelRun())


async def test_of_what_was_missed_the_rest_is_recorded(
    store: Store, due: DueSchedules, clock: TestClock
) -> None:
    schedule = await made(store)
    clock.at = BEGIN + 1450
    assert (await due.look(), await due.look()) == (1, 0)
    assert await told(store, schedule) == [(1000, 1300, "missed"), (1400, 1400, "started")]
    stored = await as_stored(store, schedule)
    assert (stored.skip_count, stored.dispatch_count) == (4, 1)


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("none", [(1000, 1900, "missed"), (2000, 2000, "started")]),
        (
            "all_within",
            [(1000, 1500, "missed")] + [(at, at, "started") for at in (1600, 1700, 1800, 1900, 2000)],
        ),
    ],
)
async def test_what_is_made_up_after_an_outage(
    store: Store, due: DueSchedules, clock: TestClock, catch_up: str, expected: list[Any]
) -> None:
    schedule = await made(store, catch_up=catch_up)
    clock.at = BEGIN + 2050
    begun = [one for one in expected if one[2] == "started"]
    assert (await due.look(), await due.look()) == (len(begun), 0)
    assert await told(store, schedule) == expected
    assert await jobs_queued(store) == len(begun)


async def test_none_is_begun_while_one_goes_on(store: Store, due: DueSchedules, clock: TestClock) -> None:
    schedule = await made(store, "skip")
    for at, begun in ((1000, 1), (1100, 0), (1200, 0)):
        clock.at = BEGIN + at
        assert await due.look() == begun
    await end(store, run_at(schedule, 1000))
    clock.at = BEGIN + 1300
    assert await due.look() == 1
    assert await told(store, schedule) == [
        (1000, 1000, "started"),
        (1100, 1100, "overlap"),
        (1200, 1200, "overlap"),
        (1300, 1300, "started"),
    ]


async def test_one_waits_and_begins_when_the_run_has_ended(
    store: Store, due: DueSchedules, clock: TestClock
) -> None:
    schedule = await made(store, "queue_one")
    for at in (1000, 1100, 1200):
        clock.at = BEGIN + at
        await due.look()
    assert (await as_stored(store, schedule)).queued_at == BEGIN + 1100
    await end(store, run_at(schedule, 1000))
    assert (await due.look(), await due.look()) == (1, 0)
    assert await told(store, schedule) == [
        (1000, 1000, "started"),
        (1200, 1200, "queue_full"),
        (1100, 1100, "started"),
    ]
    assert (await as_stored(store, schedule)).last_run_id == run_at(schedule, 1100)


async def test_what_runs_is_cancelled_and_the_next_begins_after_its_end(
    store: Store, due: DueSchedules, clock: TestClock
) -> None:
    schedule = await made(store, "cancel_running")
    clock.at = BEGIN + 1000
    await due.look()
    first = run_at(schedule, 1000)
    await apply(store, first, ClaimRun(worker_id="w", instance_id="w-1", job_no=1))
    clock.at = BEGIN + 1100
    assert await due.look() == 0
    run = await the_run(store, first)
    assert run.cancel is not None
    assert (run.cancel.by, run.is_terminal) == ("schedule", False)
    clock.at = BEGIN + 1200
    assert await due.look() == 0, "the worker has not stopped it yet"
    assert (await as_stored(store, schedule)).queued_at == BEGIN + 1200
    await apply(store, first, ConfirmCancelled(fence=run.fence))
    assert await due.look() == 1
    assert await told(store, schedule) == [
        (1000, 1000, "started"),
        (1100, 1100, "replaced"),
        (1200, 1200, "started"),
    ]


async def test_a_run_that_a_caller_cancelled_is_not_begun_again(
    store: Store, due: DueSchedules, read_model: ReadModel, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway stops before it has written that the run exists; the run is cancelled meanwhile."""
    schedule = await made(store, "queue_one", "all_within")
    clock.at = BEGIN + 1000
    write = store.schedules.replace

    async def dies(record: Schedule, *, revision: int) -> int:
        if record.last_run_id is None:
            return await write(record, revision=revision)
        raise RuntimeError("killed")

    with monkeypatch.context() as before_it_is_written:
        before_it_is_written.setattr(store.schedules, "replace", dies)
        assert await due.look() == 0
    await end(store, run_at(schedule, 1000))
    queued = await jobs_queued(store)
    clock.at = BEGIN + 1050
    assert await DueSchedules(store, read_model).look() == 1
    assert (await the_run(store, run_at(schedule, 1000))).status == "CANCELLED"
    assert await told(store, schedule) == [(1000, 1000, "started")]
    assert await jobs_queued(store) == queued
    found = await schedules.runs_of(store, read_model, schedule.schedule_id, 9, tenant_id="acme")
    assert len(found) == 1


@pytest.mark.parametrize("overlap", list(Overlap))
async def test_two_gateways_at_once_agree(
    store: Store, read_model: ReadModel, clock: TestClock, overlap: str
) -> None:
    schedule = await made(store, overlap, "all_within")
    gateways = [DueSchedules(store, read_model) for _ in range(3)]
    for at in range(1000, 2000, 150):
        clock.at = BEGIN + at
        await asyncio.gather(*(gateway.look() for gateway in gateways))
        if at % 200 == 0:
            found = await schedules.runs_of(store, read_model, schedule.schedule_id, 99, tenant_id="acme")
            for run in found:
                await end(store, run.run_id)
    for run in await schedules.runs_of(store, read_model, schedule.schedule_id, 99, tenant_id="acme"):
        await end(store, run.run_id)
    for _ in range(3):
        await asyncio.gather(*(gateway.look() for gateway in gateways))
    await each_once(store, schedule, read_model)


async def each_once(store: Store, schedule: Schedule, read_model: ReadModel) -> None:
    """Each occurrence before the next one has one run or one reason, and each run is of one of them."""
    stored = await as_stored(store, schedule)
    found, _ = await occurrences.page(store, schedule.schedule_id, 1000, None, tenant_id="acme")
    handled: list[float] = []
    for one in found:
        assert one.count is not None
        handled += [one.first_at, *next_instants(stored.timing, one.first_at, one.count - 1)]
        assert handled[-1] == one.last_at
    assert stored.next_at is not None
    planned = [
        BEGIN + 1000 + number * STEP for number in range(round((stored.next_at - BEGIN - 1000) / STEP))
    ]
    assert sorted(handled) == planned
    begun = {one.run_id for one in found if one.outcome is Outcome.STARTED}
    runs = await schedules.runs_of(store, read_model, schedule.schedule_id, 999, tenant_id="acme")
    assert {run.run_id for run in runs} == begun
    assert stored.queued_at is None


async def test_a_paused_schedule_begins_nothing_and_says_so_when_it_goes_on(
    store: Store, due: DueSchedules, clock: TestClock
) -> None:
    schedule = await made(store)
    paused = await schedule_edits.pause(store, schedule.schedule_id, tenant_id="acme")
    again = await schedule_edits.pause(store, schedule.schedule_id, tenant_id="acme")
    assert (paused.status, again.revision) == (ScheduleStatus.PAUSED, paused.revision)
    clock.at = BEGIN + 1350
    assert (await due.look(), await jobs_queued(store)) == (0, 0)
    resumed = await schedule_edits.resume(store, schedule.schedule_id, tenant_id="acme")
    assert (resumed.status, resumed.next_at) == (ScheduleStatus.ACTIVE, BEGIN + 1400)
    assert await told(store, schedule) == [(1000, 1300, "paused")]
    clock.at = BEGIN + 1400
    assert await due.look() == 1


async def test_a_run_that_is_being_begun_exists_when_the_pause_is_answered(
    store: Store, read_model: ReadModel, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause comes when another gateway has decided and has not submitted the run yet."""
    schedule = await made(store)
    clock.at = BEGIN + 1000
    read, logged = store.schedules.begins_with, -1

    async def paused_meanwhile(address: str) -> Any:
        nonlocal logged
        begins_with = await read(address)
        if logged == -1:
            logged = 0
            await schedule_edits.pause(store, schedule.schedule_id, tenant_id="acme")
            logged = await store.jetstream.last_seq(store.config.events_stream)
        return begins_with

    monkeypatch.setattr(store.schedules, "begins_with", paused_meanwhile)
    await DueSchedules(store, read_model).look()
    clock.at = BEGIN + 3000
    assert await DueSchedules(store, read_model).look() == 0
    assert logged == await store.jetstream.last_seq(store.config.events_stream)
    assert await told(store, schedule) == [(1000, 1000, "started")]
    assert (await as_stored(store, schedule)).status is ScheduleStatus.PAUSED


async def test_pauses_and_gateways_at_the_same_moment(
    store: Store, read_model: ReadModel, clock: TestClock
) -> None:
    several = [await made(store) for _ in range(8)]
    clock.at = BEGIN + 1000
    gateways = [DueSchedules(store, read_model) for _ in range(2)]
    pauses = (schedule_edits.pause(store, one.schedule_id, tenant_id="acme") for one in several)
    await asyncio.gather(*(gateway.look() for gateway in gateways), *pauses)
    logged = await store.jetstream.last_seq(store.config.events_stream)
    clock.at = BEGIN + 5000
    await asyncio.gather(*(gateway.look() for gateway in gateways))
    assert logged == await store.jetstream.last_seq(store.config.events_stream)


async def test_an_entry_that_was_not_written_is_written_with_the_next_change(
    store: Store, due: DueSchedules, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = await made(store)
    clock.at = BEGIN + 1000

    async def away(schedule_id: str, entries: Any) -> None:
        if entries:
            raise Unavailable("the broker is away")

    with monkeypatch.context() as while_away:
        while_away.setattr(store.schedules.history, "write", away)
        assert await due.look() == 1
    assert await store.schedules.history.read(schedule.schedule_id) == []
    assert await told(store, schedule) == [(1000, 1000, "started")], "the record has it"
    clock.at = BEGIN + 1100
    await due.look()
    kept = await store.schedules.history.read(schedule.schedule_id)
    assert [entry.number for entry in kept] == [1, 2]
    await store.schedules.history.write(schedule.schedule_id, kept)
    assert await store.schedules.history.read(schedule.schedule_id) == kept


async def test_the_history_is_read_in_pages_and_goes_with_its_schedule(
    store: Store, due: DueSchedules, clock: TestClock
) -> None:
    schedule = await made(store)
    for number in range(5):
        clock.at = BEGIN + 1000 + number * STEP
        await due.look()
    pages, before = [], None
    for _ in range(3):
        found, before = await occurrences.page(store, schedule.schedule_id, 2, before, tenant_id="acme")
        pages.append([one.number for one in found])
    assert (pages, before) == ([[5, 4], [3, 2], [1]], None)
    await schedules.delete(store, schedule.schedule_id, tenant_id="acme")
    assert await store.schedules.history.read(schedule.schedule_id) == []


async def test_an_edit_changes_what_the_next_run_begins_with(
    store: Store, due: DueSchedules, clock: TestClock
) -> None:
    schedule = await made(store, planned_at_param="at")
    wanted = ScheduleChanges(name="hourly", params={"x": 2}, tag="gpu")
    edited = await schedule_edits.edit(store, schedule.schedule_id, wanted, revision=1, tenant_id="acme")
    assert (edited.name, edited.tag, edited.revision, edited.next_at) == ("hourly", "gpu", 2, BEGIN + 1000)
    assert await store.schedules.begins_with(schedule.schedule_id) is None, "the old one is removed"
    clock.at = BEGIN + 1000
    await due.look()
    run = await the_run(store, run_at(schedule, 1000))
    assert (run.tag, list(run.tags)) == ("gpu", ["gpu"])
    assert run.params == {"x": 2, "at": "2033-05-18T03:50:00+00:00"}
    await schedules.delete(store, schedule.schedule_id, tenant_id="acme")
    assert await store.schedules.begins_with(edited.submission_address) is None


async def test_an_edit_of_another_revision_is_refused(store: Store, clock: TestClock) -> None:
    schedule = await made(store)
    await schedule_edits.pause(store, schedule.schedule_id, tenant_id="acme")
    wanted = ScheduleChanges(name="x", params={"x": 2})
    with pytest.raises(RevisionConflict) as refused:
        await schedule_edits.edit(store, schedule.schedule_id, wanted, revision=1, tenant_id="acme")
    assert refused.value.details == {"revision": 2}
    assert (await as_stored(store, schedule)).name is None
    begins_with = await store.schedules.begins_with(schedule.schedule_id)
    assert begins_with is not None
    assert begins_with.params == {}


async def test_of_two_edits_at_once_one_is_refused(store: Store, clock: TestClock) -> None:
    schedule = await made(store)
    answers = await asyncio.gather(
        *(
            schedule_edits.edit(
                store, schedule.schedule_id, ScheduleChanges(params={"x": one}), revision=1, tenant_id="acme"
            )
            for one in range(4)
        ),
        return_exceptions=True,
    )
    assert sorted(isinstance(one, RevisionConflict) for one in answers) == [False, True, True, True]
    stored = await as_stored(store, schedule)
    begins_with = await store.schedules.begins_with(stored.submission_address)
    [accepted] = [number for number, one in enumerate(answers) if isinstance(one, Schedule)]
    assert begins_with is not None
    assert begins_with.params == {"x": accepted}
    # What the refused ones have stored is in use nowhere.
    assert await store.schedules.remove_half_made(older_than_sec=-60.0) == 3
    assert await store.schedules.begins_with(stored.submission_address) == begins_with


async def test_a_backfill_begins_what_has_no_run_and_nothing_twice(
    store: Store, due: DueSchedules, read_model: ReadModel, clock: TestClock
) -> None:
    schedule = await made(store)
    clock.at = BEGIN + 1550
    await due.look()
    assert await told(store, schedule) == [(1000, 1400, "missed"), (1500, 1500, "started")]
    backfilling = await schedule_edits.begin_backfill(
        store, schedule.schedule_id, BEGIN, BEGIN + 1550, 2, tenant_id="acme"
    )
    assert backfilling.backfill is not None
    assert backfilling.backfill.total == 6
    with pytest.raises(Conflict):
        await schedule_edits.begin_backfill(
            store, schedule.schedule_id, BEGIN, BEGIN + 1, 2, tenant_id="acme"
        )
    assert await due.look() == 1, "two at a time, and one goes on"
    assert await due.look() == 0
    begun = 1
    while (await as_stored(store, schedule)).is_backfilling:
        for run in await schedules.runs_of(store, read_model, schedule.schedule_id, 99, tenant_id="acme"):
            await end(store, run.run_id)
        begun += await due.look()
    backfill = (await as_stored(store, schedule)).backfill
    assert backfill is not None
    assert (begun, backfill.started, backfill.existing) == (5, 5, 1)
    for _ in range(2):
        await schedule_edits.begin_backfill(
            store, schedule.schedule_id, BEGIN, BEGIN + 1550, 100, tenant_id="acme"
        )
        assert await due.look() == 0
        backfill = (await as_stored(store, schedule)).backfill
        assert backfill is not None
        assert (backfill.started, backfill.existing, backfill.next_at) == (0, 6, None)
    found, _ = await occurrences.page(store, schedule.schedule_id, 99, None, tenant_id="acme")
    assert [one.origin for one in found if one.origin is StartOrigin.BACKFILL] == [StartOrigin.BACKFILL] * 5


async def test_a_backfill_is_stopped_and_waits_in_a_pause(
    store: Store, due: DueSchedules, clock: TestClock
) -> None:
    schedule = await made(store)
    clock.at = BEGIN + 1550
    await schedule_edits.begin_backfill(store, schedule.schedule_id, BEGIN, BEGIN + 1350, 1, tenant_id="acme")
    await schedule_edits.pause(store, schedule.schedule_id, tenant_id="acme")
    assert await due.look() == 0
    stopped = await schedule_edits.stop_backfill(store, schedule.schedule_id, tenant_id="acme")
    again = await schedule_edits.stop_backfill(store, schedule.schedule_id, tenant_id="acme")
    assert stopped == again
    assert stopped.backfill is not None
    assert (stopped.backfill.is_stopped, stopped.backfill.next_at) == (True, None)


@pytest.mark.parametrize(
    ("begin", "last", "message"),
    [
        (0.0, 999.0, "no occurrence"),
        (1200.0, 1100.0, "no occurrence"),
        (1000.0, 10_000_000.0, "have passed"),
        (1000.0, 900_000.0, "at most 1000"),
    ],
)
async def test_a_backfill_has_limits(
    store: Store, clock: TestClock, begin: float, last: float, message: str
) -> None:
    schedule = await made(store)
    clock.at = BEGIN + 1_000_000
    with pytest.raises(Invalid) as refused:
        await schedule_edits.begin_backfill(
            store, schedule.schedule_id, BEGIN + begin, BEGIN + last, 1, tenant_id="acme"
        )
    assert message in msgspec.json.encode(refused.value.details).decode()


async def test_a_schedule_is_over_after_its_end(store: Store, due: DueSchedules, clock: TestClock) -> None:
    timing = Timing(
        kind=ScheduleKind.INTERVAL, interval_seconds=STEP, start_at=BEGIN + 1000, end_at=BEGIN + 1150
    )
    schedule = await schedules.create(
        store, Submission(flow_name="noop", tenant_id="acme"), timing, None, now=BEGIN
    )
    for at, begun in ((1000, 1), (1100, 1), (1200, 0)):
        clock.at = BEGIN + at
        assert await due.look() == begun
    assert (await as_stored(store, schedule)).status is ScheduleStatus.COMPLETED
    for refused in (schedule_edits.pause, schedule_edits.resume):
        with pytest.raises(Conflict):
            await refused(store, schedule.schedule_id, tenant_id="acme")
    assert SkipReason.MISSED not in {reason for _, _, reason in await told(store, schedule)}
