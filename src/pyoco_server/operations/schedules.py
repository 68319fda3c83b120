"""Create, list and delete schedules, list their runs, and submit the planned run.

The ids of a planned run and of its first commit are derived from the schedule and the instant, and a first
commit is accepted only if the run does not exist. So two gateways that submit it at once, or one that
continues after a crash, create one run.

A run is submitted only after the schedule names its instant (`beginning_at`). A delete of such a schedule
submits that run first. So when the delete is answered, every run that a gateway may still submit exists.
"""

from __future__ import annotations

from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import Conflict, Invalid, NotFound, Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.submit import Submission, submit, validate
from pyoco_server.operations.runs.submit_yaml import with_workflow
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.schedules import Schedule, ScheduleStatus, Timing, next_instant, planned_run_id
from pyoco_server.store.schedules import StoredSchedule
from pyoco_server.store.store import Store

ACTIVE_MAX = 1_000
DELETE_TRIES_MAX = 20
BEGIN_TRIES_MAX = 10


async def create(
    store: Store, wanted: Submission, timing: Timing, workflow: bytes | None, *, now: float
) -> Schedule:
    """Validated like a submission, before anything is stored. `now`: the instant that `timing` refers to.

    Without a `workflow` the runs execute a flow that workers have by name.
    """
    if workflow is not None:
        wanted = await with_workflow(wanted, workflow, store.config)
    begins_with = validate(wanted, store.config)
    next_at = next_instant(timing, now)
    if next_at is None:
        raise Invalid.at(["cron"], "No instant fits this: write one that comes.")
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
    )
    # The request ends before the runs begin, so they are not part of its trace.
    its_runs = replace(begins_with, schedule_id=schedule.schedule_id, traceparent=None)
    await store.schedules.create(schedule, its_runs)
    return schedule


async def list_schedules(store: Store, *, tenant_id: str | None) -> list[Schedule]:
    return [one for one in await store.schedules.all() if tenant_id in (None, one.tenant_id)]


async def runs_of(
    store: Store, read_model: ReadModel, schedule_id: str, limit: int, *, tenant_id: str | None
) -> list[Run]:
    """The runs of a schedule and their retries, the last changed first."""
    await _visible(store, schedule_id, tenant_id)
    await read_model.catch_up()
    return read_model.runs.page(Filter(schedule=schedule_id, tenant=tenant_id), limit)


async def delete(store: Store, schedule_id: str, *, tenant_id: str | None) -> None:
    """Delete a schedule. It starts no more runs; runs that it has started continue."""
    for _ in range(DELETE_TRIES_MAX):
        stored = await _visible(store, schedule_id, tenant_id)
        if stored.schedule.beginning_at is not None:
            begins_with = await store.schedules.begins_with(schedule_id)
            if begins_with is not None:
                await begin_planned(store, stored.schedule, begins_with)
        try:
            await store.schedules.delete(schedule_id, revision=stored.revision)
            return
        except WrongSequence:
            continue  # the schedule has changed: a run of it was started
    raise Unavailable(f"Schedule {schedule_id} changes too fast to be deleted. Try again.")


async def begin_planned(store: Store, schedule: Schedule, begins_with: RunSubmitted) -> str:
    """Submit the run that is planned at `next_at`, unless it exists already. Returns its id.

    Repeatable after an Unavailable: it continues where it stopped.
    """
    assert schedule.next_at is not None
    for number in range(BEGIN_TRIES_MAX):
        run_id = planned_run_id(schedule.schedule_id, schedule.next_at, number)
        submission = replace(begins_with, run_id=run_id, at=clock.now())
        try:
            await submit(store, submission, commit_id=f"{run_id}.planned")
            return run_id
        except Conflict:
            if not await store.runs.was_discarded(run_id):
                return run_id
    raise Unavailable(f"No job could be published in {BEGIN_TRIES_MAX} tries.")


async def _visible(store: Store, schedule_id: str, tenant_id: str | None) -> StoredSchedule:
    """NotFound also for a schedule of another tenant."""
    stored = await store.schedules.get(schedule_id)
    if stored is None or tenant_id not in (None, stored.schedule.tenant_id):
        message = "There is no such schedule. Check the id, or list schedules with GET /schedules."
        raise NotFound(message, err_id="")
    return stored


async def _check_room(store: Store, tenant_id: str | None) -> None:
    active = [
        one for one in await list_schedules(store, tenant_id=tenant_id) if one.status is ScheduleStatus.ACTIVE
    ]
    if len(active) >= ACTIVE_MAX:
        raise Conflict(f"There are {ACTIVE_MAX} active schedules already. Delete one you do not need.")
