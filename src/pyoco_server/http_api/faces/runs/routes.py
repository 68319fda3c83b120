"""`/runs`: HTTP in and out. Plain Starlette routes, because these are the ones that are called all day."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.config import NatsBackendConfig
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
from pyoco_server.http_api.faces.runs.request_context import (
    ready_gateway,
    run_id_of,
    shown_in_lists,
    while_allowed,
)
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside, small_body
from pyoco_server.http_api.requests.idempotency import key_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.operations.fleet import workers
from pyoco_server.operations.runs import cancel, query, submit, wait


async def submit_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    body = await params_body(request, gateway.config)
    valid = await read_aside(body, _checked, body, request, gateway.config)
    if (key := key_of(request)) is not None:
        return await idempotent_runs.submit_once(gateway.store, key, body, valid)
    return json_answer(wire.accepted(await submit.submit(gateway.store, valid)))


async def get_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    run_id, tenant_id = run_id_of(request), caller_of(request).tenant_id
    records = params.wants_records(request.query_params.getlist("include"))
    wait_sec = params.wait_sec(request.query_params)
    if wait_sec:
        waiting = wait.wait_for_end(gateway.run_views, run_id, timeout_sec=wait_sec, tenant_id=tenant_id)
        stored = await while_allowed(request, gateway, waiting)
    else:
        stored = await query.get_run(gateway.store, run_id, tenant_id=tenant_id, whole=records)
    shown = wire.snapshot(stored, records=records)
    if stored.run.claim is not None:
        # Only while a worker has the run: whether it lives is read from its entry and its lease.
        shown |= await workers.liveness(gateway.store, stored.run.claim)
    return json_answer(shown)


async def get_tasks(request: Request) -> Response:
    gateway = ready_gateway(request)
    tenant_id = caller_of(request).tenant_id
    stored = await query.get_run(gateway.store, run_id_of(request), tenant_id=tenant_id, whole=True)
    return json_answer(wire.tasks(stored))


async def list_runs(request: Request) -> Response:
    gateway = ready_gateway(request)
    detailed = params.wants_records(request.query_params.getlist("include"), query.INVALID_LIST)
    asked = params.list_asked(request.query_params, tenant_id=caller_of(request).tenant_id)
    if not asked.in_pages:
        runs = await query.list_runs(gateway.read_model, asked.wanted, asked.limit)
        return json_answer(await shown_in_lists(gateway.store, runs, detailed=detailed))
    runs, next_cursor = await query.page_of_runs(
        gateway.store, gateway.read_model, asked.wanted, asked.limit, asked.cursor, text=asked.text
    )
    items = await shown_in_lists(gateway.store, runs, detailed=detailed)
    return json_answer({"items": items, "next_cursor": next_cursor})


async def cancel_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    body, run_id, caller = await small_body(request), run_id_of(request), caller_of(request)
    reason = wire.cancel_reason(body)
    if (key := key_of(request)) is not None:
        return await idempotent_runs.cancel_once(gateway.store, key, body, run_id, reason, caller)
    applied = await cancel.cancel_run(
        gateway.store, run_id, by=caller.principal, reason=reason, tenant_id=caller.tenant_id
    )
    return json_answer(wire.snapshot(cancel.as_asked(applied), records=False))


def _checked(body: bytes, request: Request, config: NatsBackendConfig) -> RunSubmitted:
    return submit.validate(wire.submission(body, request.headers, caller_of(request)), config)


ROUTES = [
    Route("/runs", submit_run, methods=["POST"]),
    Route("/runs", list_runs, methods=["GET"]),
    *list_stream_routes.ROUTES,
    Route("/runs/{run_id}", get_run, methods=["GET"]),
    Route("/runs/{run_id}/tasks", get_tasks, methods=["GET"]),
    Route("/runs/{run_id}/cancel", cancel_run, methods=["POST"]),
    *watch_routes.ROUTES,
    *log_routes.ROUTES,
    *ticket_routes.ROUTES,
    *result_routes.ROUTES,
]

# For `hot_routes`: the same functions without a router in between.
HOT = {("POST", "/runs"): submit_run, ("GET", "/runs"): list_runs, **list_stream_routes.EXACT}
HOT_ONE = ("GET", "/runs/", get_run)
