"""What happens next to the occurrences of a schedule: one step at a time, by its policies. Pure.

The caller performs a step, stores the schedule as `transitions` returns it, and asks again. A step covers one
occurrence, or several that are skipped for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from pyoco_server.schedules.record import CatchUp, Overlap, Schedule, SkipReason, StartOrigin
from pyoco_server.schedules.timing import latest_instant, starts_at

# A run that starts at most this late was not missed: another gateway needs some seconds to take over.
ON_TIME_SEC = 60.0


class Running(NamedTuple):
    """The runs of the schedule that have not ended. `uncancelled`: those that no cancel was requested for."""

    number: int = 0
    uncancelled: Collection[str] = ()


class BeginPlanned(NamedTuple):
    """Submit the run of this occurrence."""

    planned_at: float
    origin: StartOrigin = StartOrigin.DUE


class QueuePlanned(NamedTuple):
    """Let this occurrence wait until the runs have ended."""

    planned_at: float


class SkipPlanned(NamedTuple):
    """Record that these occurrences get no run. Of `DUE` all from the one to the other."""

    first_at: float
    last_at: float
    reason: SkipReason
    origin: StartOrigin = StartOrigin.DUE


class CancelRunning(NamedTuple):
    """Request the cancel of these runs; an occurrence waits for their end."""

    run_ids: tuple[str, ...]


Step = BeginPlanned | QueuePlanned | SkipPlanned | CancelRunning


def needs_running(schedule: Schedule) -> bool:
    """Whether a decision depends on the runs that have not ended."""
    return schedule.policies.overlap is not Overlap.ALLOW or schedule.is_backfilling


def wakes_at(schedule: Schedule) -> float | None:
    """When `next_step` may return something. None: not by time alone."""
    if schedule.beginning_at is not None:
        return -math.inf
    if schedule.paused_at is not None:
        return None
    if schedule.queued_at is not None or schedule.is_backfilling:
        return -math.inf
    if schedule.next_at is None:
        return None
    return starts_at(schedule.schedule_id, schedule.timing, schedule.next_at)


def next_step(schedule: Schedule, now: float, running: Running) -> Step | None:
    """None: nothing to do now."""
    if schedule.beginning_at is not None:
        return BeginPlanned(schedule.beginning_at, schedule.beginning_origin)
    if schedule.paused_at is not None:
        return None
    latest = latest_due(schedule, now)
    step = None
    if latest is not None:
        step = _missed(schedule, latest, now)
    return step or _of_waiting(schedule, latest, running) or _of_backfill(schedule, running)


def latest_due(schedule: Schedule, now: float) -> float | None:
    """The latest occurrence whose run should have started, also if several were missed. None: not due.

    A run that is being submitted comes first: it may or may not exist.
    """
    if schedule.beginning_at is not None:
        return schedule.beginning_at
    if schedule.next_at is None or _starts_at(schedule, schedule.next_at) > now:
        return None
    latest = latest_instant(schedule.timing, schedule.next_at, now)
    if _starts_at(schedule, latest) > now:  # only with a jitter; the one before has started by then
        return _before(schedule, latest)
    return latest


def _missed(schedule: Schedule, latest: float, now: float) -> SkipPlanned | None:
    """Those before the first one that the catch-up policy still starts."""
    assert schedule.next_at is not None
    if (last := _last_missed(schedule, latest, now)) is None:
        return None
    return SkipPlanned(schedule.next_at, last, SkipReason.MISSED)


def _last_missed(schedule: Schedule, latest: float, now: float) -> float | None:
    policies = schedule.policies
    match policies.catch_up:
        case CatchUp.LAST:
            return _before(schedule, latest)
        case CatchUp.NONE:
            return latest_due(schedule, math.nextafter(now - ON_TIME_SEC, -math.inf))
        case CatchUp.ALL_WITHIN:
            within_sec = max(policies.catch_up_within_seconds or 0.0, ON_TIME_SEC)
            return latest_due(schedule, math.nextafter(now - within_sec, -math.inf))


def _of_waiting(schedule: Schedule, latest: float | None, running: Running) -> Step | None:
    """The occurrence that waits, then those that are due."""
    queued_at, next_at, overlap = schedule.queued_at, schedule.next_at, schedule.policies.overlap
    if overlap is Overlap.CANCEL_RUNNING and (step := _replaced(schedule, latest)) is not None:
        return step
    if queued_at is not None and (overlap is Overlap.ALLOW or not running.number):
        return BeginPlanned(queued_at, StartOrigin.QUEUED)
    if latest is not None:
        assert next_at is not None
        if overlap is Overlap.ALLOW or not running.number:
            return BeginPlanned(next_at)
        if overlap is Overlap.SKIP:
            return SkipPlanned(next_at, latest, SkipReason.OVERLAP)
        if queued_at is not None:
            return SkipPlanned(next_at, latest, SkipReason.QUEUE_FULL)
        return QueuePlanned(next_at)
    if queued_at is not None and overlap is Overlap.CANCEL_RUNNING and running.uncancelled:
        return CancelRunning(tuple(running.uncancelled))
    return None


def _replaced(schedule: Schedule, latest: float | None) -> SkipPlanned | None:
    """Where the running are cancelled, only the latest occurrence is started."""
    if latest is None:
        return None
    if schedule.queued_at is not None:
        return SkipPlanned(schedule.queued_at, schedule.queued_at, SkipReason.REPLACED, StartOrigin.QUEUED)
    before = _before(schedule, latest)
    if before is None:
        return None
    assert schedule.next_at is not None
    return SkipPlanned(schedule.next_at, before, SkipReason.REPLACED)


def _of_backfill(schedule: Schedule, running: Running) -> BeginPlanned | None:
    backfill = schedule.backfill
    if backfill is None or backfill.next_at is None:
        return None
    most = backfill.max_running if schedule.policies.overlap is Overlap.ALLOW else 1
    return BeginPlanned(backfill.next_at, StartOrigin.BACKFILL) if running.number < most else None


def _before(schedule: Schedule, instant: float) -> float | None:
    """The occurrence before this one, if it has not been handled."""
    known = schedule.next_at
    if known is None or known >= instant:
        return None
    return latest_instant(schedule.timing, known, math.nextafter(instant, -math.inf))


def _starts_at(schedule: Schedule, planned_at: float) -> float:
    return starts_at(schedule.schedule_id, schedule.timing, planned_at)
