"""`/runs`: submit, list, read and cancel runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import (
    idempotent_runs,
    list_stream_routes,
    log_routes,
    params,
    result_routes,
    ticket_routes,
    watch_routes,
    wire,
)
from pyoco_server.http_api.faces.runs.batches import routes as batches
from pyoco_server.http_api.faces.runs.request_context import run_id_of, shown_in_lists, while_allowed
from pyoco_server.http_api.faces.runs.schedules import routes as schedules
from pyoco_server.http_api.faces.runs.schemas import ACCEPTED, LIST, SCHEMAS, YAML_FORM
from pyoco_server.http_api.faces.runs.yaml_form import form_of, submission_in, workflow_in
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside, small_body
from pyoco_server.http_api.requests.idempotency import key_of, key_param
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.face import Face
from pyoco_server.http_api.routing.operation import Content, Operation, json_body, json_of
from pyoco_server.http_api.routing.schemas import OBJECT, TEXT, record, ref
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.fleet import workers
from pyoco_server.operations.live.run_views import wait_for_end
from pyoco_server.operations.runs import cancel, query, submit
from pyoco_server.operations.runs.sorted_list import page_of_sorted_runs
from pyoco_server.operations.runs.submit_yaml import submit_yaml, with_workflow


async def submit_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    body = await params_body(request, gateway.config)
    valid = await read_aside(body, _checked, body, request, gateway.config)
    if (key := key_of(request)) is not None:
        return await idempotent_runs.submit_once(gateway.store, key, body, valid)
    return json_answer(wire.accepted(await submit.submit(gateway.store, valid)))


async def submit_run_yaml(request: Request) -> Response:
    gateway = ready_gateway(request)
    key = key_of(request)
    async with form_of(request) as form:
        wanted = submission_in(request, form)
        workflow = await workflow_in(form, gateway.config.workflow_yaml_max_bytes)
        asked = idempotent_runs.asked_in(form, workflow) if key is not None else {}
    if key is not None:
        valid = submit.validate(await with_workflow(wanted, workflow, gateway.config), gateway.config)
        return await idempotent_runs.submit_once(gateway.store, key, asked, valid)
    return json_answer(wire.accepted(await submit_yaml(gateway.store, wanted, workflow)))


async def get_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    run_id, tenant_id = run_id_of(request), caller_of(request).tenant_id
    records = bool(params.INCLUDE.read(request))
    wait_sec = params.WAIT.read(request)
    if wait_sec:
        waiting = wait_for_end(gateway.run_views, run_id, timeout_sec=wait_sec, tenant_id=tenant_id)
        stored = await while_allowed(request, gateway, waiting)
    else:
        stored = await query.get_run(gateway.store, run_id, tenant_id=tenant_id, whole=records)
    shown = wire.snapshot(stored, records=records)
    if stored.run.claim is not None:
        # Only while a worker executes the run: its registry entry and its lease tell whether it is alive.
        shown |= await workers.liveness(gateway.store, stored.run.claim)
    return json_answer(shown)


async def get_tasks(request: Request) -> Response:
    gateway = ready_gateway(request)
    tenant_id = caller_of(request).tenant_id
    stored = await query.get_run(gateway.store, run_id_of(request), tenant_id=tenant_id, whole=True)
    return json_answer(wire.tasks(stored))


async def list_runs(request: Request) -> Response:
    gateway = ready_gateway(request)
    detailed = bool(params.LIST_INCLUDE.read(request))
    tenant_id = caller_of(request).tenant_id
    asked = params.list_asked(request, tenant_id=tenant_id)
    if prefix := params.id_prefix_asked(request):
        runs = await query.runs_with_prefix(gateway.read_model, prefix, asked.limit, tenant_id=tenant_id)
        found = await shown_in_lists(gateway.store, runs, detailed=detailed)
        return json_answer({"items": found, "next_cursor": None})
    if not asked.in_pages:
        runs = await query.list_runs(gateway.read_model, asked.wanted, asked.limit)
        return json_answer(await shown_in_lists(gateway.store, runs, detailed=detailed))
    runs, next_cursor = await _page(gateway, asked)
    items = await shown_in_lists(gateway.store, runs, detailed=detailed)
    return json_answer({"items": items, "next_cursor": next_cursor})


async def _page(gateway: Gateway, asked: params.RunListParams) -> tuple[list[Run], str | None]:
    read = gateway.store, gateway.read_model, asked.wanted
    if asked.sorting is None:
        return await query.page_of_runs(*read, asked.limit, asked.cursor, text=asked.text)
    return await page_of_sorted_runs(*read, asked.sorting, asked.limit, asked.cursor, text=asked.text)


async def cancel_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    body, run_id, caller = await small_body(request), run_id_of(request), caller_of(request)
    reason = wire.cancel_reason(body)
    if (key := key_of(request)) is not None:
        return await idempotent_runs.cancel_once(gateway.store, key, body, run_id, reason, caller)
    applied = await cancel.cancel_run(
        gateway.store, run_id, by=caller.principal, reason=reason, tenant_id=caller.tenant_id
    )
    return json_answer(wire.snapshot(cancel.as_requested(applied), records=False))


def _checked(body: bytes, request: Request, config: NatsBackendConfig) -> RunSubmitted:
    return submit.validate(wire.submission(body, request.headers, caller_of(request)), config)


_PAGES = """With `updated_after`, `cursor`, `q`, `id_prefix`, `workflow_yaml_sha256`, `submitted_after`,
`submitted_before`, `retry_of` or `sort` answers are `{items, next_cursor}`. Send `next_cursor` with the same
filters until it is null; an empty `cursor` asks for the first page.

Pages are sorted by the latest change, newest first. No change is lost: a run that changes while pages are
read comes, or comes again, after the oldest. `next_cursor` is null when every run was shown as it is now.

Sorted by submission or duration, no run comes twice. Runs that get a place before the cursor meanwhile are
not shown. Filters other than status, flow and `retry_of` look at a few thousand runs for a page: it may have
few items, or none, and still a `next_cursor`."""
_SNAPSHOT = """The answer has the members of `RunSnapshot`, except `pyoco`. These it has only with a value:
`retry_of`, `retry_from`, `start_at`, `expires_at`, `schedule_id`, `cancel_reason` (of the cancel) and
`worker_alive` (false from the loss of the worker until another one takes the run over)."""
FACE = Face(
    tag="runs",
    error="Error",
    operations=[
        Operation(
            "POST",
            "/runs",
            submit_run,
            "Submit a run",
            {200: json_of("Accepted and queued", ACCEPTED)},
            [key_param()],
            json_body(ref("RunSubmitRequest")),
            errors=[409, 413, 415, 422],
            is_hot=True,
        ),
        Operation(
            "GET",
            "/runs",
            list_runs,
            "List runs, newest first",
            {200: json_of("Summaries, or snapshots with `include`", LIST)},
            params.LIST_PARAMS,
            errors=[422],
            description=_PAGES,
            is_hot=True,
        ),
        *list_stream_routes.OPERATIONS,
        Operation(
            "GET",
            "/runs/{run_id}",
            get_run,
            "One run, from the event log",
            {200: json_of("The snapshot", OBJECT)},
            [params.RUN_ID, params.INCLUDE, params.WAIT],
            errors=[404, 422, 429],
            description=_SNAPSHOT,
            is_hot=True,
        ),
        Operation(
            "GET",
            "/runs/{run_id}/tasks",
            get_tasks,
            "The tasks of a run with their records",
            {200: json_of("Tasks", OBJECT)},
            [params.RUN_ID],
            errors=[404],
        ),
        Operation(
            "POST",
            "/runs/{run_id}/cancel",
            cancel_run,
            "Cancel a run; an accepted cancel is never undone",
            {200: json_of("The snapshot", OBJECT)},
            [params.RUN_ID, key_param()],
            json_body(record([], {"reason": TEXT}), required=False),
            errors=[404, 409, 413, 415, 422],
        ),
        *watch_routes.OPERATIONS,
        *log_routes.OPERATIONS,
        *ticket_routes.OPERATIONS,
        *result_routes.OPERATIONS,
        Operation(
            "POST",
            "/runs/yaml",
            submit_run_yaml,
            "Submit a run together with its flow",
            {200: json_of("Accepted and queued", ACCEPTED)},
            [key_param()],
            Content(kinds={"multipart/form-data": YAML_FORM}),
            errors=[409, 413, 422],
        ),
    ],
    schemas=SCHEMAS,
)
BATCHES = Face(tag="batches", error="Error", operations=batches.OPERATIONS)
SCHEDULES = Face(tag="schedules", error="Error", operations=schedules.OPERATIONS)
