"""What happens to occurrences, by values: each of them gets one run or one recorded reason."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from pyoco_server.schedules.decide import (
    ON_TIME_SEC,
    BeginPlanned,
    CancelRunning,
    QueuePlanned,
    Running,
    SkipPlanned,
    next_step,
    wakes_at,
)
from pyoco_server.schedules.record import (
    Backfill,
    CatchUp,
    Outcome,
    Overlap,
    Policies,
    Schedule,
    ScheduleStatus,
    SkipReason,
    StartOrigin,
)
from pyoco_server.schedules.timing import ScheduleKind, Timing, next_instant
from pyoco_server.schedules.transitions import (
    advance,
    edit,
    mark,
    pass_existing,
    pause,
    queue,
    resume,
    settle,
    skip,
)
from tests.schedules.history import World, a_schedule, every, occurrences_of

IDLE, BUSY = Running(), Running(1, ("r",))


def policies(overlap: str = "allow", catch_up: str = "last", within: float | None = None) -> Policies:
    return Policies(overlap=Overlap(overlap), catch_up=CatchUp(catch_up), catch_up_within_seconds=within)


def due(overlap: str = "allow", catch_up: str = "last", within: float | None = None, **more: Any) -> Schedule:
    """Every ten seconds, the next at 100."""
    return a_schedule(every(10.0, 100.0), 100.0, policies=policies(overlap, catch_up, within), **more)


@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_what_is_due_alone_begins(overlap: str, catch_up: str) -> None:
    schedule = due(overlap, catch_up, 60.0)
    assert next_step(schedule, 99.9, IDLE) is None
    assert next_step(schedule, 100.0, IDLE) == BeginPlanned(100.0)
    assert wakes_at(schedule) == 100.0


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("allow", BeginPlanned(100.0)),
        ("skip", SkipPlanned(100.0, 100.0, SkipReason.OVERLAP)),
        ("queue_one", QueuePlanned(100.0)),
        ("cancel_running", QueuePlanned(100.0)),
    ],
)
def test_what_is_due_while_a_run_goes_on(overlap: str, expected: Any) -> None:
    assert next_step(due(overlap), 100.0, BUSY) == expected


def test_one_waits_and_the_next_ones_are_skipped() -> None:
    waiting = queue(due("queue_one"), 100.0, now=100.0)
    assert (waiting.queued_at, waiting.next_at) == (100.0, 110.0)
    assert next_step(waiting, 105.0, BUSY) is None
    assert next_step(waiting, 111.0, BUSY) == SkipPlanned(110.0, 110.0, SkipReason.QUEUE_FULL)
    assert next_step(waiting, 111.0, IDLE) == BeginPlanned(100.0, StartOrigin.QUEUED)
    begun = advance(mark(waiting, 100.0, StartOrigin.QUEUED, now=111.0), now=111.0, run_id="r")
    assert (begun.queued_at, begun.next_at, begun.last_at) == (None, 110.0, 100.0)


def test_running_ones_are_cancelled_and_the_latest_occurrence_waits_for_their_end() -> None:
    waiting = queue(due("cancel_running"), 100.0, now=100.0)
    assert next_step(waiting, 101.0, BUSY) == CancelRunning(("r",))
    assert next_step(waiting, 101.0, Running(1)) is None, "its cancel was requested"
    assert next_step(waiting, 102.0, IDLE) == BeginPlanned(100.0, StartOrigin.QUEUED)
    step = next_step(waiting, 110.0, Running(1))
    assert step == SkipPlanned(100.0, 100.0, SkipReason.REPLACED, StartOrigin.QUEUED)
    assert next_step(skip(waiting, step, now=110.0), 110.0, Running(1)) == QueuePlanned(110.0)


def test_a_policy_that_was_changed_frees_the_one_that_waits() -> None:
    waiting = queue(due("queue_one"), 100.0, now=100.0)
    allowing = edit(waiting, replace(waiting, policies=policies("allow")), now=101.0)
    assert next_step(allowing, 101.0, BUSY) == BeginPlanned(100.0, StartOrigin.QUEUED)


@pytest.mark.parametrize(
    ("catch_up", "within", "now", "expected"),
    [
        ("last", None, 125.0, SkipPlanned(100.0, 110.0, SkipReason.MISSED)),
        ("last", None, 1e6 + 5, SkipPlanned(100.0, 1e6 - 10, SkipReason.MISSED)),
        ("none", None, 125.0, BeginPlanned(100.0)),
        ("none", None, 100.0 + ON_TIME_SEC, BeginPlanned(100.0)),
        ("none", None, 101.0 + ON_TIME_SEC, SkipPlanned(100.0, 100.0, SkipReason.MISSED)),
        ("none", None, 1000.0, SkipPlanned(100.0, 930.0, SkipReason.MISSED)),
        ("all_within", 300.0, 400.0, BeginPlanned(100.0)),
        ("all_within", 300.0, 1005.0, SkipPlanned(100.0, 700.0, SkipReason.MISSED)),
        ("all_within", 1.0, 130.0, BeginPlanned(100.0)),
    ],
)
def test_what_an_outage_leaves(catch_up: str, within: float | None, now: float, expected: Any) -> None:
    assert next_step(due("allow", catch_up, within), now, IDLE) == expected


def test_a_year_of_minutes_is_skipped_in_one_step() -> None:
    step = next_step(a_schedule(every(60.0, 0.0), 60.0), 366 * 86_400.0, IDLE)
    assert step == SkipPlanned(60.0, 366 * 86_400.0 - 60, SkipReason.MISSED)
    skipped = skip(a_schedule(every(60.0, 0.0), 60.0), step, now=1.0)
    assert [one.count for one in skipped.unwritten] == [None]


def test_a_paused_schedule_begins_nothing_whatever_is_due() -> None:
    for overlap, running, now in product(Overlap, (IDLE, BUSY), (100.0, 1e6)):
        paused = pause(due(overlap, backfill=a_backfill()), now=50.0)
        assert (paused.status, next_step(paused, now, running)) == (ScheduleStatus.PAUSED, None)
        assert wakes_at(paused) is None


def test_a_start_that_is_reserved_is_finished_also_while_paused() -> None:
    reserved = mark(due(), 100.0, StartOrigin.DUE, now=100.0)
    assert next_step(reserved, 100.0, BUSY) == BeginPlanned(100.0)
    assert wakes_at(reserved) == float("-inf")


def test_the_pause_is_recorded_when_it_ends() -> None:
    resumed = resume(pause(due(), now=95.0), now=125.0)
    assert (resumed.status, resumed.next_at, resumed.revision) == (ScheduleStatus.ACTIVE, 130.0, 3)
    [entry] = resumed.unwritten
    assert (entry.first_at, entry.last_at, entry.count) == (100.0, 120.0, 3)
    assert (entry.outcome, entry.reason) == (Outcome.SKIPPED, SkipReason.PAUSED)
    assert resumed.skip_count == 3


def test_an_occurrence_that_waits_does_not_outlive_a_pause() -> None:
    paused = pause(queue(due("queue_one"), 100.0, now=100.0), now=101.0)
    [entry] = paused.unwritten
    assert (paused.queued_at, entry.first_at, entry.reason) == (None, 100.0, SkipReason.PAUSED)


def test_a_new_timing_counts_from_the_edit() -> None:
    edited = edit(due(), replace(due(), timing=every(7.0, 0.0)), now=115.0)
    assert (edited.next_at, edited.revision) == (119.0, 2)
    [entry] = edited.unwritten
    assert (entry.first_at, entry.last_at, entry.reason) == (100.0, 110.0, SkipReason.EDITED)
    renamed = edit(due(), replace(due(), name="x"), now=115.0)
    assert (renamed.name, renamed.next_at, renamed.unwritten) == ("x", 100.0, ())


def test_a_schedule_is_over_when_nothing_is_to_come() -> None:
    ending = a_schedule(every(10.0, 100.0, end_at=105.0), 100.0, policies=policies("queue_one"))
    waiting = queue(ending, 100.0, now=100.0)
    assert (waiting.next_at, waiting.status) == (None, ScheduleStatus.ACTIVE)
    begun = advance(mark(waiting, 100.0, StartOrigin.QUEUED, now=101.0), now=101.0, run_id="r")
    assert begun.status is ScheduleStatus.COMPLETED
    assert pause(waiting, now=100.0).status is ScheduleStatus.COMPLETED
    assert settle(replace(ending, next_at=None, backfill=a_backfill())).status == "ACTIVE"


def a_backfill(**changes: Any) -> Backfill:
    members: dict[str, Any] = {"first_at": 10.0, "last_at": 30.0, "total": 3, "max_running": 2}
    return Backfill(**(members | {"created_at": 50.0, "next_at": 10.0} | changes))


def test_a_backfill_goes_on_while_fewer_runs_than_allowed_are_going_on() -> None:
    schedule = a_schedule(every(10.0, 0.0), 60.0, backfill=a_backfill())
    assert next_step(schedule, 55.0, Running(1)) == BeginPlanned(10.0, StartOrigin.BACKFILL)
    assert next_step(schedule, 55.0, Running(2)) is None
    assert next_step(schedule, 60.0, Running(2)) == BeginPlanned(60.0), "what is due comes first"
    alone = replace(schedule, policies=policies("skip"))
    assert next_step(alone, 55.0, Running(1)) is None
    assert next_step(alone, 55.0, IDLE) == BeginPlanned(10.0, StartOrigin.BACKFILL)


def test_a_backfill_counts_what_it_started_and_what_there_was() -> None:
    schedule = a_schedule(every(10.0, 0.0), 60.0, backfill=a_backfill())
    one = advance(mark(schedule, 10.0, StartOrigin.BACKFILL, now=51.0), now=51.0, run_id="r")
    assert (one.next_at, one.unwritten[0].origin) == (60.0, StartOrigin.BACKFILL)
    last = pass_existing(pass_existing(one, now=52.0), now=53.0)
    assert last.backfill == a_backfill(next_at=None, started=1, existing=2, ended_at=53.0)
    assert (last.entries, last.unwritten) == (1, ())


def test_a_record_of_an_older_version_can_be_read() -> None:
    """As 1.0 wrote it, in the middle of a start."""
    old = (
        b'{"schedule_id":"7b0f6a52-7f0e-4f6e-9d49-0c6f7a1b5d11","flow_name":"nightly","tag":"default",'
        b'"timing":{"kind":"interval","interval_seconds":10.0,"start_at":100.0},"workflow_yaml_sha256":null,'
        b'"workflow_yaml_bytes":null,"tenant_id":null,"api_key_id":null,"created_at":1.0,"updated_at":1.0,'
        b'"next_at":100.0,"status":"ACTIVE","last_at":90.0,"last_submitted_at":90.5,"last_run_id":"r",'
        b'"dispatch_count":1,"last_error":null,"beginning_at":100.0}'
    )
    schedule = msgspec.json.decode(old, type=Schedule)
    assert next_step(schedule, 101.0, IDLE) == BeginPlanned(100.0)
    begun = advance(schedule, now=101.0, run_id="s")
    assert (begun.next_at, begun.dispatch_count, begun.policies) == (110.0, 2, Policies())
    assert msgspec.json.decode(msgspec.json.encode(begun), type=Schedule) == begun


STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("wait"), some.floats(0.0, 400.0)),
        some.tuples(some.just("end runs"), some.integers(1, 3)),
        some.tuples(some.sampled_from(("pause", "resume", "crash", "rename", "retime"))),
        some.tuples(some.just("policies"), some.sampled_from(Overlap), some.sampled_from(CatchUp)),
    ),
    max_size=25,
)
TIMINGS = some.sampled_from(
    (
        every(10.0, 100.0),
        every(10.0, 100.0, jitter_seconds=25.0),
        every(70.0, 100.0, end_at=800.0),
        Timing(kind=ScheduleKind.CRON, cron="*/2 * * * *", timezone="Europe/Berlin", jitter_seconds=50.0),
        Timing(kind=ScheduleKind.ONCE, run_at=150.0),
    )
)


@settings(max_examples=150, deadline=None)
@given(timing=TIMINGS, overlap=some.sampled_from(Overlap), catch_up=some.sampled_from(CatchUp), steps=STEPS)
def test_each_occurrence_has_one_run_or_one_reason(
    timing: Timing, overlap: Overlap, catch_up: CatchUp, steps: list[tuple[Any, ...]]
) -> None:
    world = World(a_schedule(timing, next_instant(timing, 99.0), policies=policies(overlap, catch_up, 100.0)))
    for step in steps:
        world.do(*step)
    world.do("resume")
    world.finish()
    handled = Counter(instant for entry in world.history for instant in occurrences_of(entry, world))
    assert set(handled.values()) <= {1}
    assert sorted(handled) == sorted(world.planned_until_now() - world.still_to_come())
    assert [entry.number for entry in world.history] == list(range(1, len(world.history) + 1))


def test_a_backfill_goes_on_by_the_timing_that_its_range_was_counted_by() -> None:
    """By a shorter interval it would start any number of runs: the limit was checked with the longer one."""
    schedule = a_schedule(every(10.0, 0.0), 60.0, backfill=a_backfill(next_at=20.0))
    for seconds in (0.1, 7.0):
        wanted = replace(schedule, timing=every(seconds, 0.0))
        schedule = edit(schedule, wanted, now=51.0)
        assert schedule.timing == every(seconds, 0.0)
    moved = pass_existing(schedule, now=52.0)
    assert moved.backfill is not None
    assert (moved.backfill.next_at, moved.backfill.existing) == (30.0, 1)
    begun = advance(mark(moved, 30.0, StartOrigin.BACKFILL, now=53.0), now=53.0, run_id="run")
    assert begun.backfill is not None
    assert (begun.backfill.next_at, begun.next_at) == (None, 56.0)
