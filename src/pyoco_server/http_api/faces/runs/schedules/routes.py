"""`/schedules`: create, list and delete schedules, preview their instants, start and list their runs."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server import clock
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import idempotent_runs, params, wire
from pyoco_server.http_api.faces.runs.request_context import shown_in_lists
from pyoco_server.http_api.faces.runs.schedules.change_routes import CHANGES
from pyoco_server.http_api.faces.runs.schedules.form import (
    FIELDS,
    asked_in,
    fields_in,
    options_of,
    timing_of,
)
from pyoco_server.http_api.faces.runs.schedules.schemas import BODY, FORM, WHEN
from pyoco_server.http_api.faces.runs.schedules.wire import shown
from pyoco_server.http_api.faces.runs.schemas import ACCEPTED, SUMMARIES
from pyoco_server.http_api.faces.runs.yaml_form import form_of, submission_in, workflow_in
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.tracing_headers import correlation_id_of, traceparent_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside
from pyoco_server.http_api.requests.idempotency import key_of, key_param
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.kinds import IntegerKind
from pyoco_server.http_api.routing.operation import Content, Operation, json_body, json_of
from pyoco_server.http_api.routing.params import Param, path, text
from pyoco_server.http_api.routing.schemas import array, ref
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.operations import schedules
from pyoco_server.operations.runs import submit
from pyoco_server.operations.schedules import UPCOMING_MAX
from pyoco_server.schedules.timing import next_instants

SCHEDULE_ID = path("schedule_id")
UPCOMING = Param(
    "upcoming", IntegerKind(0, UPCOMING_MAX), 0, "With the next instants of each schedule, as many as this."
)
UPCOMING_PREVIEW = Param("upcoming", IntegerKind(1, UPCOMING_MAX), 5, "How many instants at most.")


async def create_yaml_schedule(request: Request) -> Response:
    gateway = ready_gateway(request)
    now = clock.now()
    async with form_of(request) as form:
        wanted = submission_in(request, form)
        given = fields_in(form)
        workflow = await workflow_in(form, gateway.config.workflow_yaml_max_bytes)
    timing, options = timing_of(given, now), options_of(given)
    made = await schedules.create(gateway.store, wanted, timing, workflow, options, now=now)
    return json_answer(shown(made))


async def create_schedule(request: Request) -> Response:
    gateway = ready_gateway(request)
    body, now = await params_body(request, gateway.config), clock.now()
    wanted, given = await read_aside(body, asked_in, body, request.headers, caller_of(request))
    timing, options = timing_of(given, now), options_of(given)
    made = await schedules.create(gateway.store, wanted, timing, None, options, now=now)
    return json_answer(shown(made))


async def list_schedules(request: Request) -> Response:
    gateway, count = ready_gateway(request), UPCOMING.read(request)
    tenant_id = caller_of(request).tenant_id
    found = await schedules.list_schedules(gateway.store, tenant_id=tenant_id)
    last = await schedules.last_statuses(gateway.read_model, found, tenant_id=tenant_id)
    next_of = await schedules.upcoming(found, count) if count else {}
    return json_answer(
        [
            shown(one, last.get(one.last_run_id or ""))
            | ({"upcoming": next_of[one.schedule_id]} if count else {})
            for one in found
        ]
    )


async def preview_schedule(request: Request) -> Response:
    """Reads nothing that is stored. The errors are those of creating a schedule with this timing."""
    ready_gateway(request)
    now = clock.now()
    given = {name: text for name in FIELDS if (text := request.query_params.get(name))}
    timing, count = timing_of(given, now), UPCOMING_PREVIEW.read(request)
    return json_answer({"upcoming": await asyncio.to_thread(next_instants, timing, now, count)})


async def run_schedule(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    schedule_id = SCHEDULE_ID.read(request)
    headers = request.headers
    correlation_id, traceparent = correlation_id_of(headers), traceparent_of(headers)

    async def prepare() -> RunSubmitted:
        submission = await schedules.submission_now(
            gateway.store, schedule_id, tenant_id=caller.tenant_id, api_key_id=caller.api_key_id
        )
        return replace(submission, correlation_id=correlation_id, traceparent=traceparent)

    if (key := key_of(request)) is not None:
        return await idempotent_runs.submit_prepared_once(gateway.store, key, {}, prepare)
    return json_answer(wire.accepted(await submit.submit(gateway.store, await prepare())))


async def list_schedule_runs(request: Request) -> Response:
    gateway = ready_gateway(request)
    detailed = bool(params.LIST_INCLUDE.read(request))
    runs = await schedules.runs_of(
        gateway.store,
        gateway.read_model,
        SCHEDULE_ID.read(request),
        params.LIMIT.read(request),
        tenant_id=caller_of(request).tenant_id,
    )
    return json_answer(await shown_in_lists(gateway.store, runs, detailed=detailed))


async def delete_schedule(request: Request) -> Response:
    gateway = ready_gateway(request)
    schedule_id = SCHEDULE_ID.read(request)
    await schedules.delete(gateway.store, schedule_id, tenant_id=caller_of(request).tenant_id)
    return json_answer({"schedule_id": schedule_id, "deleted": True})


_DELETED = {
    "type": "object",
    "required": ["schedule_id", "deleted"],
    "properties": {"schedule_id": {"type": "string"}, "deleted": {"const": True}},
}
_UPCOMING = {
    "type": "object",
    "required": ["upcoming"],
    "properties": {"upcoming": array({"type": "number"})},
}
_WHICH = (
    "Exactly one of `run_at`, `interval_seconds` and `cron`. `overlap` and `catch_up` say what happens to an "
    "occurrence that is due while a run goes on, or that was missed in an outage."
)
OPERATIONS = [
    Operation(
        "POST",
        "/schedules",
        create_schedule,
        "Schedule a flow that workers have",
        {200: json_of("The schedule", ref("Schedule"))},
        body=json_body(BODY),
        errors=[409, 413, 415, 422],
        description=_WHICH,
    ),
    Operation(
        "POST",
        "/schedules/yaml",
        create_yaml_schedule,
        "Schedule a flow.yaml",
        {200: json_of("The schedule", ref("Schedule"))},
        body=Content(kinds={"multipart/form-data": FORM}),
        errors=[409, 413, 422],
        description=_WHICH,
    ),
    Operation(
        "GET",
        "/schedules",
        list_schedules,
        "All schedules, newest first",
        {200: json_of("Schedules", array(ref("Schedule")))},
        [UPCOMING],
        errors=[422],
    ),
    Operation(
        "GET",
        "/schedules/preview",
        preview_schedule,
        "When a schedule would be due",
        {200: json_of("Instants in unix seconds", _UPCOMING)},
        [*(text(name, str(WHEN[name].get("description", ""))) for name in FIELDS), UPCOMING_PREVIEW],
        errors=[422],
        description="Creates nothing. " + _WHICH,
    ),
    Operation(
        "POST",
        "/schedules/{schedule_id}/run",
        run_schedule,
        "Start one more run of a schedule, now",
        {200: json_of("Accepted and queued", ACCEPTED)},
        [SCHEDULE_ID, key_param()],
        errors=[404, 409, 422],
        description="With the flow, parameters and tags of the schedule. Its next instants stay as they are.",
    ),
    Operation(
        "GET",
        "/schedules/{schedule_id}/runs",
        list_schedule_runs,
        "The runs of a schedule, latest change first",
        {200: json_of("Summaries, or snapshots with `include`", SUMMARIES)},
        [SCHEDULE_ID, params.LIMIT, params.LIST_INCLUDE],
        errors=[404, 422],
    ),
    Operation(
        "DELETE",
        "/schedules/{schedule_id}",
        delete_schedule,
        "Delete a schedule; its runs continue",
        {200: json_of("Deleted", _DELETED)},
        [SCHEDULE_ID],
        errors=[404],
    ),
    # After the paths without an id, which would be taken for one.
    *CHANGES,
]
