"""`/schedules/{schedule_id}`: read, edit, pause, resume and backfill a schedule, and list its occurrences."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import clock
from pyoco_server.errors import Invalid
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs.schedules.form import (
    FIELDS,
    OPTIONS,
    changed_timing,
    instant_of,
    options_of,
)
from pyoco_server.http_api.faces.runs.schedules.schemas import BACKFILL, EDIT, OCCURRENCES
from pyoco_server.http_api.faces.runs.schedules.wire import occurrences as shown_occurrences
from pyoco_server.http_api.faces.runs.schedules.wire import shown
from pyoco_server.http_api.faces.runs.wire import counts, decoded
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside, small_body
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.kinds import IntegerKind
from pyoco_server.http_api.routing.operation import Operation, json_body, json_of
from pyoco_server.http_api.routing.params import Param, path
from pyoco_server.http_api.routing.schemas import ref
from pyoco_server.json_value import JsonObject
from pyoco_server.operations import occurrences, schedule_edits, schedules
from pyoco_server.operations.schedule_edits import BACKFILL_RUNNING_MAX, ScheduleChanges
from pyoco_server.operations.schedules import UPCOMING_MAX, Options
from pyoco_server.schedules.record import Schedule

SCHEDULE_ID = path("schedule_id")
UPCOMING = Param("upcoming", IntegerKind(0, UPCOMING_MAX), 5, "With its next instants, as many as this.")
LIMIT = Param("limit", IntegerKind(1, 200), 50, "How many entries at most.")
BEFORE = Param(
    "before", IntegerKind(1, 2**53), None, "`next_before` of the previous page: entries with a lower number."
)


class ScheduleEditRequest(msgspec.Struct):
    revision: int
    params: JsonObject | UnsetType = UNSET
    tag: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    run_at: str | UnsetType | None = UNSET
    interval_seconds: float | UnsetType | None = UNSET
    start_at: str | UnsetType | None = UNSET
    cron: str | UnsetType | None = UNSET
    timezone: str | UnsetType | None = UNSET
    end_at: str | UnsetType | None = UNSET
    jitter_seconds: float | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    overlap: str | UnsetType | None = UNSET
    catch_up: str | UnsetType | None = UNSET
    catch_up_within_seconds: float | UnsetType | None = UNSET
    planned_at_param: str | UnsetType | None = UNSET


class BackfillRequest(msgspec.Struct):
    from_: str = msgspec.field(name="from")
    to: str
    max_running: int = 1


_decode_edit = msgspec.json.Decoder(ScheduleEditRequest).decode
_decode_backfill = msgspec.json.Decoder(BackfillRequest).decode


async def get_schedule(request: Request) -> Response:
    schedule_id, tenant_id = SCHEDULE_ID.read(request), caller_of(request).tenant_id
    schedule = await schedules.get(ready_gateway(request).store, schedule_id, tenant_id=tenant_id)
    return await _answer(request, schedule, upcoming=UPCOMING.read(request))


async def edit_schedule(request: Request) -> Response:
    gateway, schedule_id = ready_gateway(request), SCHEDULE_ID.read(request)
    tenant_id = caller_of(request).tenant_id
    body = await params_body(request, gateway.config)
    asked = await read_aside(body, decoded, _decode_edit, body)
    before = await schedules.get(gateway.store, schedule_id, tenant_id=tenant_id)
    edited = await schedule_edits.edit(
        gateway.store,
        schedule_id,
        _changes(before, asked),
        revision=asked.revision,
        tenant_id=tenant_id,
    )
    return await _answer(request, edited)


async def pause_schedule(request: Request) -> Response:
    schedule_id, tenant_id = SCHEDULE_ID.read(request), caller_of(request).tenant_id
    paused = await schedule_edits.pause(ready_gateway(request).store, schedule_id, tenant_id=tenant_id)
    return await _answer(request, paused)


async def resume_schedule(request: Request) -> Response:
    schedule_id, tenant_id = SCHEDULE_ID.read(request), caller_of(request).tenant_id
    resumed = await schedule_edits.resume(ready_gateway(request).store, schedule_id, tenant_id=tenant_id)
    return await _answer(request, resumed)


async def backfill_schedule(request: Request) -> Response:
    gateway, schedule_id = ready_gateway(request), SCHEDULE_ID.read(request)
    asked = decoded(_decode_backfill, await small_body(request))
    if not 1 <= asked.max_running <= BACKFILL_RUNNING_MAX:
        raise Invalid.at(["body", "max_running"], f"Write a number from 1 to {BACKFILL_RUNNING_MAX}.")
    backfilled = await schedule_edits.begin_backfill(
        gateway.store,
        schedule_id,
        instant_of("from", asked.from_),
        instant_of("to", asked.to),
        asked.max_running,
        tenant_id=caller_of(request).tenant_id,
    )
    return await _answer(request, backfilled)


async def stop_backfill(request: Request) -> Response:
    schedule_id, tenant_id = SCHEDULE_ID.read(request), caller_of(request).tenant_id
    stopped = await schedule_edits.stop_backfill(
        ready_gateway(request).store, schedule_id, tenant_id=tenant_id
    )
    return await _answer(request, stopped)


async def list_occurrences(request: Request) -> Response:
    found, before = await occurrences.page(
        ready_gateway(request).store,
        SCHEDULE_ID.read(request),
        LIMIT.read(request),
        BEFORE.read(request),
        tenant_id=caller_of(request).tenant_id,
    )
    return json_answer({"occurrences": [shown_occurrences(one) for one in found], "next_before": before})


async def _answer(request: Request, schedule: Schedule, upcoming: int = 5) -> Response:
    read_model = ready_gateway(request).read_model
    last = await schedules.last_statuses(read_model, [schedule], tenant_id=schedule.tenant_id)
    by_status = await schedules.run_counts(read_model, schedule)
    next_of = await schedules.upcoming([schedule], upcoming)
    return json_answer(
        shown(schedule, last.get(schedule.last_run_id or ""))
        | {"runs": counts(by_status), "upcoming": next_of[schedule.schedule_id]}
    )


def _changes(schedule: Schedule, asked: ScheduleEditRequest) -> ScheduleChanges:
    sent = _texts(asked)
    before = Options(schedule.name, schedule.policies, schedule.planned_at_param)
    options = options_of(sent, before)
    return ScheduleChanges(
        name=options.name,
        timing=changed_timing(schedule.timing, sent, clock.now()),
        policies=options.policies,
        planned_at_param=options.planned_at_param,
        tag=asked.tag,
        tags=asked.tags,
        params=asked.params,
    )


def _texts(asked: ScheduleEditRequest) -> Mapping[str, str | None]:
    names = [name for name in (*FIELDS, *OPTIONS) if name in ScheduleEditRequest.__struct_fields__]
    sent = {name: getattr(asked, name) for name in names}
    return {
        name: None if value in (None, "") else str(value)
        for name, value in sent.items()
        if value is not UNSET
    }


_ANSWER = {200: json_of("The schedule", ref("Schedule"))}
CHANGES = [
    Operation(
        "GET",
        "/schedules/{schedule_id}",
        get_schedule,
        "A schedule, with its next instants and how many of its runs are in which status",
        _ANSWER,
        [SCHEDULE_ID, UPCOMING],
        errors=[404, 422],
    ),
    Operation(
        "PATCH",
        "/schedules/{schedule_id}",
        edit_schedule,
        "Change a schedule",
        _ANSWER,
        [SCHEDULE_ID],
        body=json_body(EDIT),
        errors=[404, 409, 413, 415, 422],
        description=(
            "What is not sent stays as it is; null removes a member. A revision other than that of the "
            "schedule is refused (409): read the schedule again. A new timing counts from now."
        ),
    ),
    Operation(
        "POST",
        "/schedules/{schedule_id}/pause",
        pause_schedule,
        "Pause a schedule",
        _ANSWER,
        [SCHEDULE_ID],
        errors=[404, 409],
        description="When this is answered, it starts no more runs until it is resumed. Repeatable.",
    ),
    Operation(
        "POST",
        "/schedules/{schedule_id}/resume",
        resume_schedule,
        "Resume a schedule; occurrences of the pause are skipped",
        _ANSWER,
        [SCHEDULE_ID],
        errors=[404, 409],
    ),
    Operation(
        "POST",
        "/schedules/{schedule_id}/backfill",
        backfill_schedule,
        "Start the runs of past occurrences that have none",
        _ANSWER,
        [SCHEDULE_ID],
        body=json_body(BACKFILL),
        errors=[404, 409, 415, 422],
        description="In their order, one backfill at a time. `backfill` of the schedule shows its progress.",
    ),
    Operation(
        "DELETE",
        "/schedules/{schedule_id}/backfill",
        stop_backfill,
        "Stop the backfill of a schedule; its runs continue",
        _ANSWER,
        [SCHEDULE_ID],
        errors=[404],
    ),
    Operation(
        "GET",
        "/schedules/{schedule_id}/occurrences",
        list_occurrences,
        "What happened to each occurrence, latest first",
        {200: json_of("Runs that were started, and why others were not", OCCURRENCES)},
        [SCHEDULE_ID, LIMIT, BEFORE],
        errors=[404, 422],
        description="The latest 1,000 entries are kept. An entry may be of several occurrences.",
    ),
]
