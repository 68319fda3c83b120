"""Create, list and delete schedules, list their runs and next instants, and submit their runs.

The ids of a planned run and of its first commit are derived from the schedule and the instant, and a first
commit is accepted only if the run does not exist. So two gateways that submit it at once, or one that
continues after a crash, create one run.

A run is submitted only after the schedule names its instant (`beginning_at`). A delete of such a schedule
submits that run first. So when the delete is answered, every run that a gateway may still submit exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import Conflict, Invalid, NotFound, Unavailable
from pyoco_server.ids import new_uuid
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.submit import Submission, submit, validate
from pyoco_server.operations.runs.submit_yaml import with_workflow
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.schedules.record import CatchUp, Policies, Schedule, ScheduleStatus, planned_run_id
from pyoco_server.schedules.timing import ZONE_DEFAULT, Timing, next_instant, next_instants, zone_of
from pyoco_server.store.schedules import StoredSchedule
from pyoco_server.store.store import Store

ACTIVE_MAX = 1_000
DELETE_TRIES_MAX = 20
CATCH_UP_SEC_MAX = 366 * 86_400.0
BEGIN_TRIES_MAX = 10
UPCOMING_MAX = 10
# Instants that are remembered until the schedule moves on: to work them out takes parts of a millisecond.
UPCOMING_KEPT_MAX = 4_096


class Options(NamedTuple):
    """What a schedule has beside its timing. `is_paused`: it starts nothing until it is resumed."""

    name: str | None = None
    policies: Policies = Policies()
    planned_at_param: str | None = None
    is_paused: bool = False


NO_OPTIONS = Options()


async def create(
    store: Store,
    wanted: Submission,
    timing: Timing,
    workflow: bytes | None,
    options: Options = NO_OPTIONS,
    *,
    now: float,
) -> Schedule:
    """Validated like a submission, before anything is stored. `now`: the instant that `timing` refers to.

    Without a `workflow` the runs execute a flow that workers have by name.
    """
    if workflow is not None:
        wanted = await with_workflow(wanted, workflow, store.config)
    begins_with = validate(wanted, store.config)
    next_at = next_instant(timing, now)
    if next_at is None:
        raise Invalid.at(
            ["cron" if timing.end_at is None else "end_at"], "No instant fits this: write one that comes."
        )
    check_policies(options.policies)
    await _check_room(store, wanted.tenant_id)
    schedule = Schedule(
        # The random id that `validate` made for a run; the schedule uses it as its own id.
        schedule_id=begins_with.run_id,
        flow_name=begins_with.flow_name,
        tag=begins_with.tag,
        timing=timing,
        workflow_yaml_sha256=begins_with.workflow_yaml_sha256,
        workflow_yaml_bytes=begins_with.workflow_yaml_bytes,
        tenant_id=begins_with.tenant_id,
        api_key_id=begins_with.api_key_id,
        created_at=now,
        updated_at=now,
        next_at=next_at,
        status=ScheduleStatus.PAUSED if options.is_paused else ScheduleStatus.ACTIVE,
        paused_at=now if options.is_paused else None,
        name=options.name,
        policies=options.policies,
        planned_at_param=options.planned_at_param,
    )
    # The request ends before the runs begin, so they are not part of its trace.
    its_runs = replace(begins_with, schedule_id=schedule.schedule_id, traceparent=None)
    await store.schedules.create(schedule, its_runs)
    return schedule


def check_policies(policies: Policies) -> None:
    within_sec = policies.catch_up_within_seconds
    if (policies.catch_up is CatchUp.ALL_WITHIN) is (within_sec is None):
        message = "catch_up_within_seconds goes with catch_up all_within, which needs it."
        raise Invalid.at(["catch_up_within_seconds"], message)
    if within_sec is not None and not 0 < within_sec <= CATCH_UP_SEC_MAX:
        message = f"Write a number of seconds, at most {CATCH_UP_SEC_MAX:g}."
        raise Invalid.at(["catch_up_within_seconds"], message)


async def get(store: Store, schedule_id: str, *, tenant_id: str | None) -> Schedule:
    return (await visible(store, schedule_id, tenant_id)).schedule


async def run_counts(read_model: ReadModel, schedule: Schedule) -> dict[str, int]:
    """By status, how many of its runs are stored."""
    await read_model.catch_up()
    return read_model.runs.counts_of_schedule(schedule.schedule_id)


async def list_schedules(store: Store, *, tenant_id: str | None) -> list[Schedule]:
    return [one for one in await store.schedules.all() if tenant_id in (None, one.tenant_id)]


async def upcoming(found: Iterable[Schedule], count: int) -> dict[str, list[float]]:
    """By schedule id, the instants at which it is due next, at most `count` (up to `UPCOMING_MAX`).

    In a thread: a thousand schedules take half a second when none is remembered.
    """
    pending = {one.schedule_id: one for one in found}
    return await asyncio.to_thread(lambda: {key: _upcoming(one, count) for key, one in pending.items()})


def _upcoming(schedule: Schedule, count: int) -> list[float]:
    if schedule.next_at is None or count == 0:
        return []
    return [schedule.next_at, *_instants_after(schedule.timing, schedule.next_at, count - 1)]


@lru_cache(maxsize=UPCOMING_KEPT_MAX)
def _instants_after(timing: Timing, after: float, count: int) -> tuple[float, ...]:
    return tuple(next_instants(timing, after, count))


async def last_statuses(
    read_model: ReadModel, found: Iterable[Schedule], *, tenant_id: str | None
) -> dict[str, str]:
    """By id, the status of the run that each schedule has started last. Missing: the run is erased."""
    wanted = [one.last_run_id for one in found if one.last_run_id is not None]
    if wanted:
        await read_model.catch_up()
    runs = (read_model.runs.with_prefix(run_id, tenant_id, 1) for run_id in wanted)
    return {run.run_id: run.status.value for one in runs for run in one}


async def submission_now(
    store: Store, schedule_id: str, *, tenant_id: str | None, api_key_id: str | None
) -> RunSubmitted:
    """The submission of one more run, now. The instants of the schedule stay as they are.

    The run is one of the schedule and lists it; its submitter is the caller. Conflict for a schedule that has
    ended: its submission is no longer stored.
    """
    stored = await visible(store, schedule_id, tenant_id)
    begins_with = await store.schedules.begins_with(stored.schedule.submission_address)
    if begins_with is None:
        raise Conflict("This schedule has ended and starts no more runs. Submit the run with POST /runs.")
    return replace(begins_with, run_id=new_uuid(), at=clock.now(), api_key_id=api_key_id)


async def runs_of(
    store: Store, read_model: ReadModel, schedule_id: str, limit: int, *, tenant_id: str | None
) -> list[Run]:
    """The runs of a schedule and their retries, the last changed first."""
    await visible(store, schedule_id, tenant_id)
    await read_model.catch_up()
    return read_model.runs.page(Filter(schedule=schedule_id, tenant=tenant_id), limit)


async def delete(store: Store, schedule_id: str, *, tenant_id: str | None) -> None:
    """Delete a schedule. It starts no more runs; runs that it has started continue."""
    for _ in range(DELETE_TRIES_MAX):
        stored = await visible(store, schedule_id, tenant_id)
        if stored.schedule.beginning_at is not None:
            begins_with = await store.schedules.begins_with(stored.schedule.submission_address)
            if begins_with is not None:
                await begin_planned(store, stored.schedule, begins_with)
        try:
            address = stored.schedule.submission_address
            await store.schedules.delete(schedule_id, revision=stored.revision, address=address)
            return
        except WrongSequence:
            continue  # the schedule has changed: a run of it was started
    raise Unavailable(f"Schedule {schedule_id} changes too fast to be deleted. Try again.")


async def begin_planned(store: Store, schedule: Schedule, begins_with: RunSubmitted) -> str:
    """Submit the run that is reserved, else the one planned at `next_at`, unless it exists. Returns its id.

    Repeatable after an Unavailable: it continues where it stopped.
    """
    planned_at = schedule.next_at if schedule.beginning_at is None else schedule.beginning_at
    assert planned_at is not None
    begins_with = replace(begins_with, params=begins_with.params | _planned_param(schedule, planned_at))
    for number in range(BEGIN_TRIES_MAX):
        run_id = planned_run_id(schedule.schedule_id, planned_at, number)
        submission = replace(begins_with, run_id=run_id, at=clock.now())
        try:
            await submit(store, submission, commit_id=f"{run_id}.planned")
            return run_id
        except Conflict:
            if not await store.runs.was_discarded(run_id):
                return run_id
    raise Unavailable(f"No job could be published in {BEGIN_TRIES_MAX} tries.")


def _planned_param(schedule: Schedule, planned_at: float) -> JsonObject:
    """The planned instant in the time zone of the schedule, if a parameter of the runs takes it."""
    if schedule.planned_at_param is None:
        return {}
    zone = zone_of(schedule.timing.timezone or ZONE_DEFAULT) or UTC
    return {schedule.planned_at_param: datetime.fromtimestamp(planned_at, zone).isoformat()}


async def visible(store: Store, schedule_id: str, tenant_id: str | None) -> StoredSchedule:
    """NotFound also for a schedule of another tenant."""
    stored = await store.schedules.get(schedule_id)
    if stored is None or tenant_id not in (None, stored.schedule.tenant_id):
        message = "There is no such schedule. Check the id, or list schedules with GET /schedules."
        raise NotFound(message, err_id="")
    return stored


async def _check_room(store: Store, tenant_id: str | None) -> None:
    active = [
        one
        for one in await list_schedules(store, tenant_id=tenant_id)
        if one.status is not ScheduleStatus.COMPLETED
    ]
    if len(active) >= ACTIVE_MAX:
        raise Conflict(f"There are {ACTIVE_MAX} active schedules already. Delete one you do not need.")
