"""Handle the occurrences of a schedule: start their runs, or record why they get none. List what happened.

Every change of a record is a compare-and-set, so of two gateways one is refused and reads again. A start is
reserved in the record before the run is submitted; the id of the run follows from the schedule and the
occurrence. So a gateway that continues after a crash, at any step, makes no second run.
"""

from __future__ import annotations

import contextlib
import logging

from msgspec.structs import replace

from pyoco_server.errors import NotFound
from pyoco_server.jetstream.errors import BrokerRefused
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.schedules import begin_planned, visible
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.schedules import transitions
from pyoco_server.schedules.decide import (
    BeginPlanned,
    CancelRunning,
    QueuePlanned,
    Running,
    SkipPlanned,
    Step,
    needs_running,
)
from pyoco_server.schedules.record import Occurrences, Schedule, StartOrigin, planned_run_id
from pyoco_server.store.schedules import StoredSchedule
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

NO_WORKFLOW = "The submission of its runs is missing. Delete the schedule and create it again."
RUNNING_MAX = 1_000
CANCELLED_BY = "schedule"


async def running_of(store: Store, read_model: ReadModel, schedule: Schedule) -> Running:
    """The runs of the schedule that have not ended, if the next decision depends on them.

    They are read after the record was. Every run that the record knows is among them until its end.
    """
    if not needs_running(schedule):
        return Running()
    await read_model.catch_up()
    found = read_model.runs.page(Filter(schedule=schedule.schedule_id, active=1), RUNNING_MAX)
    if found:
        return Running(len(found), [run.run_id for run in found if run.cancel is None])
    if schedule.last_run_id is None:
        return Running()
    # A list that is behind may lack the last one.
    last = await store.runs.load(schedule.last_run_id, at_leader=True)
    if last is None or last.run.is_terminal or last.run.gone:
        return Running()
    return Running(1, [last.run.run_id] if last.run.cancel is None else [])


async def perform(store: Store, stored: StoredSchedule, step: Step, now: float) -> bool:
    """Whether a run was started. Raises WrongSequence if another process changed the schedule."""
    match step:
        case BeginPlanned():
            return await _begin(store, stored, step, now)
        case QueuePlanned():
            changed = transitions.queue(stored.schedule, step.planned_at, now=now)
            await store.schedules.change(stored, changed)
        case SkipPlanned():
            await store.schedules.change(stored, transitions.skip(stored.schedule, step, now=now))
            fields = {"schedule_id": stored.schedule.schedule_id, "reason": step.reason.value}
            log.info("occurrences of a schedule skipped", extra=fields)
        case CancelRunning():
            for run_id in step.run_ids:
                await _cancel(store, stored.schedule, run_id)
    return False


async def finish_start(store: Store, stored: StoredSchedule, now: float) -> StoredSchedule:
    """Submit the run whose start is reserved, so that no process submits it later."""
    begins_with = await store.schedules.begins_with(stored.schedule.submission_address)
    if begins_with is None:
        moved = transitions.advance(stored.schedule, now=now, run_id=None, error=NO_WORKFLOW)
    else:
        run_id = await begin_planned(store, stored.schedule, begins_with)
        moved = transitions.advance(stored.schedule, now=now, run_id=run_id)
    return await store.schedules.change(stored, moved)


async def page(
    store: Store, schedule_id: str, limit: int, before: int | None, *, tenant_id: str | None
) -> tuple[list[Occurrences], int | None]:
    """Entries of the history, the latest first, and the `before` of the next page; None: this is the last."""
    # The history is read first: what is not in it yet is still in the record.
    await visible(store, schedule_id, tenant_id)
    kept = {entry.number: entry for entry in await store.schedules.history.read(schedule_id)}
    stored = await visible(store, schedule_id, tenant_id)
    kept |= {entry.number: entry for entry in stored.schedule.unwritten}
    numbers = sorted((one for one in kept if before is None or one < before), reverse=True)
    shown = numbers[:limit]
    return [kept[one] for one in shown], shown[-1] if len(numbers) > limit else None


async def _begin(store: Store, stored: StoredSchedule, step: BeginPlanned, now: float) -> bool:
    schedule = stored.schedule
    if schedule.beginning_at is None:
        if step.origin is StartOrigin.BACKFILL and await _exists(store, schedule, step.planned_at):
            await store.schedules.change(stored, transitions.pass_existing(schedule, now=now))
            return False
        marked = transitions.mark(schedule, step.planned_at, step.origin, now=now)
        stored = await store.schedules.change(stored, marked)
    try:
        begun = await finish_start(store, stored, now)
    except BrokerRefused as refused:
        await _note_error(store, stored, refused, now)
        return False
    run_id = begun.schedule.last_run_id if begun.schedule.last_error is None else None
    if run_id is not None:
        log.info("scheduled run begun", extra={"schedule_id": schedule.schedule_id, "run_id": run_id})
    return run_id is not None


async def _note_error(store: Store, stored: StoredSchedule, refused: BrokerRefused, now: float) -> None:
    """The next round tries again; until then the schedule can be deleted."""
    schedule, error = stored.schedule, refused.public_message
    if schedule.last_error != error:
        fields = {"schedule_id": schedule.schedule_id, "error": refused.message}
        log.warning("a scheduled run could not be begun", extra=fields)
    assert schedule.beginning_at is not None
    if await _exists(store, schedule, schedule.beginning_at):
        noted = replace(schedule, last_error=error, updated_at=now, unwritten=())
    else:
        noted = transitions.unmark(schedule, error=error, now=now)
    await store.schedules.change(stored, noted)


async def _exists(store: Store, schedule: Schedule, planned_at: float) -> bool:
    """Whether the occurrence has a run. One that was discarded, or erased a while ago, is none."""
    run_id = planned_run_id(schedule.schedule_id, planned_at)
    found = await store.runs.load_confirmed(run_id)
    return found is not None and not await store.runs.was_discarded(run_id)


async def _cancel(store: Store, schedule: Schedule, run_id: str) -> None:
    reason = f"Another run of schedule {schedule.schedule_id} is due."
    with contextlib.suppress(NotFound):  # it was erased
        await cancel_run(store, run_id, by=CANCELLED_BY, reason=reason, tenant_id=schedule.tenant_id)
