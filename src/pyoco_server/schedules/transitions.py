"""The schedule after a step, with the entries of its history. Pure; the caller stores the result."""

from __future__ import annotations

from msgspec.structs import replace

from pyoco_server.schedules.decide import SkipPlanned
from pyoco_server.schedules.record import (
    Backfill,
    Occurrences,
    Outcome,
    Schedule,
    ScheduleStatus,
    SkipReason,
    StartOrigin,
)
from pyoco_server.schedules.timing import count_instants, latest_instant, next_instant


def mark(schedule: Schedule, planned_at: float, origin: StartOrigin, *, now: float) -> Schedule:
    """Reserve the start of this occurrence. Its submission follows."""
    return replace(_fresh(schedule, now), beginning_at=planned_at, beginning_origin=origin)


def unmark(schedule: Schedule, *, error: str, now: float) -> Schedule:
    """The run could not be submitted, and does not exist. The occurrence stays due."""
    cleared = replace(_fresh(schedule, now), beginning_at=None, beginning_origin=StartOrigin.DUE)
    return settle(replace(cleared, last_error=error))


def advance(schedule: Schedule, *, now: float, run_id: str | None, error: str | None = None) -> Schedule:
    """The schedule after the reserved run was submitted. Without a `run_id`: that failed for good."""
    planned_at, origin = schedule.beginning_at, schedule.beginning_origin
    if planned_at is None:
        planned_at = schedule.next_at
    assert planned_at is not None
    moved = replace(
        _fresh(schedule, now), beginning_at=None, beginning_origin=StartOrigin.DUE, last_error=error
    )
    moved = _past(moved, planned_at, origin, run_id=run_id, now=now)
    if run_id is None:
        return _record(moved, SkipPlanned(planned_at, planned_at, SkipReason.FAILED, origin), now)
    moved = replace(
        moved,
        last_at=planned_at,
        last_submitted_at=now,
        last_run_id=run_id,
        dispatch_count=schedule.dispatch_count + 1,
    )
    return _add(
        moved,
        Occurrences(
            number=moved.entries + 1,
            outcome=Outcome.STARTED,
            first_at=planned_at,
            last_at=planned_at,
            recorded_at=now,
            origin=origin,
            run_id=run_id,
        ),
    )


def pass_existing(schedule: Schedule, *, now: float) -> Schedule:
    """The next occurrence of the backfill has a run already."""
    backfill = schedule.backfill
    assert backfill is not None
    assert backfill.next_at is not None
    moved = _backfill_after(schedule, backfill, now)
    passed = replace(moved, existing=backfill.existing + 1)
    return settle(replace(_fresh(schedule, now), backfill=passed))


def queue(schedule: Schedule, planned_at: float, *, now: float) -> Schedule:
    """`planned_at`: the next occurrence."""
    moved = _past(_fresh(schedule, now), planned_at, StartOrigin.DUE, run_id=None, now=now)
    return settle(replace(moved, queued_at=planned_at))


def skip(schedule: Schedule, skipped: SkipPlanned, *, now: float) -> Schedule:
    moved = _past(_fresh(schedule, now), skipped.last_at, skipped.origin, run_id=None, now=now)
    return _record(moved, skipped, now)


def pause(schedule: Schedule, *, now: float) -> Schedule:
    """An occurrence that waits is not started any more."""
    paused = replace(_changed(schedule, now), paused_at=now)
    if schedule.queued_at is not None:
        waiting = SkipPlanned(schedule.queued_at, schedule.queued_at, SkipReason.PAUSED, StartOrigin.QUEUED)
        paused = _record(replace(paused, queued_at=None), waiting, now)
    return settle(paused)


def resume(schedule: Schedule, *, now: float) -> Schedule:
    """The occurrences of the pause are skipped, whatever the catch-up policy is."""
    resumed = replace(_changed(schedule, now), paused_at=None)
    return settle(_skip_until(resumed, now, SkipReason.PAUSED))


def edit(schedule: Schedule, wanted: Schedule, *, now: float) -> Schedule:
    """`wanted`: the schedule with what the caller changes.

    A new timing counts from now: occurrences of the old one that are due and not started are skipped. A
    backfill goes on by the timing that it began with: its range was counted, and bounded, by that.
    """
    edited = _changed(schedule, now)
    next_at, backfill = schedule.next_at, schedule.backfill
    if wanted.timing != schedule.timing:
        reason = SkipReason.EDITED if schedule.paused_at is None else SkipReason.PAUSED
        edited = _skip_until(edited, now, reason)
        next_at = next_instant(wanted.timing, now)
        if backfill is not None and backfill.next_at is not None and backfill.timing is None:
            backfill = replace(backfill, timing=schedule.timing)
    return settle(
        replace(
            wanted,
            next_at=next_at,
            backfill=backfill,
            revision=edited.revision,
            updated_at=now,
            skip_count=edited.skip_count,
            entries=edited.entries,
            unwritten=edited.unwritten,
        )
    )


def begin_backfill(schedule: Schedule, backfill: Backfill, *, now: float) -> Schedule:
    return settle(replace(_fresh(schedule, now), backfill=backfill))


def stop_backfill(schedule: Schedule, *, now: float) -> Schedule:
    if schedule.backfill is None or schedule.backfill.next_at is None:
        return schedule
    stopped = replace(schedule.backfill, next_at=None, ended_at=now, is_stopped=True)
    return settle(replace(_fresh(schedule, now), backfill=stopped))


def settle(schedule: Schedule) -> Schedule:
    """With the status that follows from the other members."""
    is_over = (
        schedule.next_at is None
        and schedule.queued_at is None
        and schedule.beginning_at is None
        and not schedule.is_backfilling
    )
    if is_over:
        status = ScheduleStatus.COMPLETED
    else:
        status = ScheduleStatus.ACTIVE if schedule.paused_at is None else ScheduleStatus.PAUSED
    return schedule if schedule.status is status else replace(schedule, status=status)


def _changed(schedule: Schedule, now: float) -> Schedule:
    """By a caller."""
    return replace(_fresh(schedule, now), revision=schedule.revision + 1)


def _fresh(schedule: Schedule, now: float) -> Schedule:
    """Entries of the step before are in the history when the next one is stored."""
    return replace(schedule, updated_at=now, unwritten=())


def _past(
    schedule: Schedule, planned_at: float, origin: StartOrigin, *, run_id: str | None, now: float
) -> Schedule:
    """This occurrence, and those before it, are handled."""
    match origin:
        case StartOrigin.DUE:
            return settle(replace(schedule, next_at=next_instant(schedule.timing, planned_at)))
        case StartOrigin.QUEUED:
            return settle(replace(schedule, queued_at=None))
        case StartOrigin.BACKFILL:
            backfill = schedule.backfill
            if backfill is None or backfill.next_at != planned_at:
                return settle(schedule)  # it was stopped meanwhile
            moved = _backfill_after(schedule, backfill, now)
            started = backfill.started + (run_id is not None)
            return settle(replace(schedule, backfill=replace(moved, started=started)))


def _backfill_after(schedule: Schedule, backfill: Backfill, now: float) -> Backfill:
    assert backfill.next_at is not None
    following = next_instant(backfill.timing or schedule.timing, backfill.next_at)
    if following is None or following > backfill.last_at:
        return replace(backfill, next_at=None, ended_at=now)
    return replace(backfill, next_at=following)


def _skip_until(schedule: Schedule, now: float, reason: SkipReason) -> Schedule:
    first_at = schedule.next_at
    if first_at is None or first_at > now:
        return schedule
    skipped = SkipPlanned(first_at, latest_instant(schedule.timing, first_at, now), reason)
    moved = replace(schedule, next_at=next_instant(schedule.timing, skipped.last_at))
    return _record(moved, skipped, now)


def _record(schedule: Schedule, skipped: SkipPlanned, now: float) -> Schedule:
    count = count_instants(schedule.timing, skipped.first_at, skipped.last_at)
    entry = Occurrences(
        number=schedule.entries + 1,
        outcome=Outcome.SKIPPED,
        first_at=skipped.first_at,
        last_at=skipped.last_at,
        recorded_at=now,
        count=count,
        origin=skipped.origin,
        reason=skipped.reason,
    )
    return _add(replace(schedule, skip_count=schedule.skip_count + (count or 0)), entry)


def _add(schedule: Schedule, entry: Occurrences) -> Schedule:
    return replace(schedule, entries=entry.number, unwritten=(*schedule.unwritten, entry))
