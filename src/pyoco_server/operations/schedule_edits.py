"""Changes of a schedule by callers: pause, resume, edit, backfill.

A start that a gateway has reserved is finished first. So when a change is answered, every run that was
decided on before exists, and from then on the changed record decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, Invalid, RevisionConflict, Unavailable
from pyoco_server.ids import new_uuid
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.names import check_routing_tag, check_tags
from pyoco_server.operations.occurrences import finish_start
from pyoco_server.operations.runs.submit import check_params
from pyoco_server.operations.schedules import check_policies, visible
from pyoco_server.schedules import transitions
from pyoco_server.schedules.record import Backfill, Policies, Schedule, ScheduleStatus
from pyoco_server.schedules.timing import Timing, count_instants, latest_instant, next_instant
from pyoco_server.store.store import Store

CHANGE_TRIES_MAX = 20
BACKFILL_MAX = 1_000
BACKFILL_RUNNING_MAX = 100

_ENDED = "This schedule has ended. Create another one."


class ScheduleChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants to be different. What is not set stays as it is."""

    name: str | UnsetType | None = UNSET
    timing: Timing | UnsetType = UNSET
    policies: Policies | UnsetType = UNSET
    planned_at_param: str | UnsetType | None = UNSET
    tag: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    params: JsonObject | UnsetType = UNSET


async def pause(store: Store, schedule_id: str, *, tenant_id: str | None) -> Schedule:
    """No run starts by time any more when this returns. Repeatable."""

    def change(schedule: Schedule, now: float) -> Schedule:
        return schedule if schedule.paused_at is not None else transitions.pause(schedule, now=now)

    return await _change(store, schedule_id, tenant_id, change)


async def resume(store: Store, schedule_id: str, *, tenant_id: str | None) -> Schedule:
    """Occurrences of the pause are not made up. Repeatable."""

    def change(schedule: Schedule, now: float) -> Schedule:
        return schedule if schedule.paused_at is None else transitions.resume(schedule, now=now)

    return await _change(store, schedule_id, tenant_id, change)


async def edit(
    store: Store, schedule_id: str, wanted: ScheduleChanges, *, revision: int, tenant_id: str | None
) -> Schedule:
    """RevisionConflict if it is not at this revision."""
    stored = await visible(store, schedule_id, tenant_id)
    _check_revision(stored.schedule, revision)
    submission = await _edited_submission(store, stored.schedule, wanted)
    address = f"{schedule_id}.{new_uuid()}"
    if submission is not None:
        await store.schedules.put_submission(address, submission)

    def change(schedule: Schedule, now: float) -> Schedule:
        _check_revision(schedule, revision)
        edited = _edited(schedule, wanted, now)
        if submission is not None:
            edited = replace(edited, tag=submission.tag, submission_key=address)
        return transitions.edit(schedule, edited, now=now)

    changed = await _change(store, schedule_id, tenant_id, change)
    if submission is not None:
        with contextlib.suppress(Unavailable):  # it is removed with the schedule
            await store.schedules.remove_submission(stored.schedule.submission_address)
    return changed


async def begin_backfill(
    store: Store,
    schedule_id: str,
    first_at: float,
    last_at: float,
    max_running: int,
    *,
    tenant_id: str | None,
) -> Schedule:
    """Start the runs of the occurrences in this range that have none, in their order."""

    def change(schedule: Schedule, now: float) -> Schedule:
        if schedule.is_backfilling:
            raise Conflict("A backfill of this schedule is going on. Wait for its end, or stop it.")
        backfill = _backfill_of(schedule.timing, first_at, last_at, max_running, now)
        return transitions.begin_backfill(schedule, backfill, now=now)

    return await _change(store, schedule_id, tenant_id, change)


async def stop_backfill(store: Store, schedule_id: str, *, tenant_id: str | None) -> Schedule:
    """Runs that it has started continue. Repeatable."""

    def change(schedule: Schedule, now: float) -> Schedule:
        return transitions.stop_backfill(schedule, now=now)

    return await _change(store, schedule_id, tenant_id, change, is_for_ended=True)


async def _change(
    store: Store,
    schedule_id: str,
    tenant_id: str | None,
    change: Callable[[Schedule, float], Schedule],
    *,
    is_for_ended: bool = False,
) -> Schedule:
    for _ in range(CHANGE_TRIES_MAX):
        stored = await visible(store, schedule_id, tenant_id)
        now = clock.now()
        if stored.schedule.status is ScheduleStatus.COMPLETED and not is_for_ended:
            raise Conflict(_ENDED)
        try:
            if stored.schedule.beginning_at is not None:
                await finish_start(store, stored, now)
                continue
            # In a thread: to count what was not started in a long pause takes a second.
            changed = await asyncio.to_thread(change, stored.schedule, now)
            if changed is not stored.schedule:
                await store.schedules.change(stored, changed)
            return changed
        except WrongSequence:
            continue  # a run of it was started, or another caller changed it
    raise Unavailable(f"Schedule {schedule_id} changes too fast to be changed. Try again.")


def _check_revision(schedule: Schedule, revision: int) -> None:
    if schedule.revision != revision:
        message = "The schedule has changed since you read it. Read it, and send its revision."
        raise RevisionConflict(message, details={"revision": schedule.revision})


def _edited(schedule: Schedule, wanted: ScheduleChanges, now: float) -> Schedule:
    edited = schedule
    if wanted.timing is not UNSET:
        if wanted.timing != schedule.timing and next_instant(wanted.timing, now) is None:
            raise Invalid.at(
                ["cron" if wanted.timing.end_at is None else "end_at"],
                "No instant fits this: write one that comes.",
            )
        edited = replace(edited, timing=wanted.timing)
    if wanted.name is not UNSET:
        edited = replace(edited, name=wanted.name)
    if wanted.policies is not UNSET:
        check_policies(wanted.policies)
        edited = replace(edited, policies=wanted.policies)
    if wanted.planned_at_param is not UNSET:
        edited = replace(edited, planned_at_param=wanted.planned_at_param)
    return edited


async def _edited_submission(
    store: Store, schedule: Schedule, wanted: ScheduleChanges
) -> RunSubmitted | None:
    """None: it stays as it is."""
    if wanted.tag is UNSET and wanted.tags is UNSET and wanted.params is UNSET:
        return None
    begins_with = await store.schedules.begins_with(schedule.submission_address)
    if begins_with is None:
        raise Conflict(_ENDED)
    if wanted.params is not UNSET and schedule.workflow_yaml_sha256 is not None:
        raise Invalid.at(["params"], "The parameters of a flow.yaml are its own: create another schedule.")
    return _with_changes(begins_with, wanted, store.config)


def _with_changes(
    begins_with: RunSubmitted, wanted: ScheduleChanges, config: NatsBackendConfig
) -> RunSubmitted:
    if wanted.params is not UNSET:
        check_params(wanted.params, config)
        begins_with = replace(begins_with, params=wanted.params)
    if wanted.tag is not UNSET:
        # Without tags of its own a run has its routing tag as the only one.
        is_only_tag = begins_with.tags == [begins_with.tag]
        tag = check_routing_tag(wanted.tag)
        begins_with = replace(begins_with, tag=tag, tags=[tag] if is_only_tag else begins_with.tags)
    if wanted.tags is not UNSET:
        begins_with = replace(begins_with, tags=check_tags(wanted.tags))
    return begins_with


def _backfill_of(timing: Timing, first_at: float, last_at: float, max_running: int, now: float) -> Backfill:
    if last_at > now:
        raise Invalid.at(["to"], "A backfill is of instants that have passed: write an earlier one.")
    first = next_instant(timing, math.nextafter(first_at, -math.inf) - 1e-6)
    if first is None or first > last_at:
        raise Invalid.at(["from"], "The schedule has no occurrence in this range.")
    last = latest_instant(timing, first, last_at)
    total = count_instants(timing, first, last)
    if total is None or total > BACKFILL_MAX:
        raise Invalid.at(["from"], f"A backfill has at most {BACKFILL_MAX} occurrences: narrow the range.")
    return Backfill(
        first_at=first, last_at=last, total=total, max_running=max_running, created_at=now, next_at=first
    )
