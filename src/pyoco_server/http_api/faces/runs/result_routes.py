"""`/runs/{run_id}/result`, `/retry` and `/graph`: the result of a run, a retry, its tasks."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import idempotent_runs, params, wire
from pyoco_server.http_api.faces.runs.request_context import run_id_of, while_allowed
from pyoco_server.http_api.faces.runs.schemas import RETRIED
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside
from pyoco_server.http_api.requests.idempotency import key_of, key_param
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, json_body, json_of
from pyoco_server.http_api.routing.schemas import OBJECT, ref
from pyoco_server.operations.runs import flow_graph, result, retry


async def get_result(request: Request) -> Response:
    gateway = ready_gateway(request)
    wait_sec = params.WAIT.read(request)
    finding = result.result(
        gateway.store,
        gateway.run_views,
        run_id_of(request),
        tenant_id=caller_of(request).tenant_id,
        wait_sec=wait_sec,
    )
    pieces = await (while_allowed(request, gateway, finding) if wait_sec else finding)
    return StreamingResponse(pieces, media_type="application/json")


async def retry_run(request: Request) -> Response:
    gateway = ready_gateway(request)
    body = await params_body(request, gateway.config)
    run_id, caller = run_id_of(request), caller_of(request)
    wanted = await read_aside(body, wire.retry_asked, body, request.headers)
    if (key := key_of(request)) is not None:
        return await idempotent_runs.retry_once(gateway.store, key, body, run_id, wanted, caller)
    return json_answer(wire.retried(await retry.retry(gateway.store, run_id, wanted, caller)))


async def get_graph(request: Request) -> Response:
    gateway = ready_gateway(request)
    tenant_id = caller_of(request).tenant_id
    drawn = await flow_graph.get_flow_graph(gateway.store, run_id_of(request), tenant_id=tenant_id)
    nodes = [{"id": one.name, "type": one.kind, "after": one.after, "join": one.join} for one in drawn.tasks]
    return json_answer({"run_id": drawn.run_id, "nodes": nodes, "ordered": drawn.is_wired})


_RETRY = """`from: failed` (the default) reuses the results of tasks that succeeded; `from: start`
executes everything again; `from: task` with `task` executes that task, everything after it and every task
that has not succeeded, and reuses the other results. `params` replaces the parameters of the run; reused
results were computed with the old ones. 409 for a run that has not ended, or ended before its tasks were
planned."""
_RESULT = (
    "409 with `status` and `error` for a run that is not COMPLETED when the wait ends; 404 for a result "
    "that was not stored; 500 for a large result whose stored bytes differ from what was recorded."
)
OPERATIONS = [
    Operation(
        "GET",
        "/runs/{run_id}/graph",
        get_graph,
        "The tasks of a run and their dependencies",
        {200: json_of("`{run_id, nodes, ordered}`", OBJECT)},
        [params.RUN_ID],
        errors=[404],
        description="`ordered` is false if dependencies are not known: tasks are then in their order.",
        name="get_run_graph",
    ),
    Operation(
        "GET",
        "/runs/{run_id}/result",
        get_result,
        "The result of a run: the output of its last task, or `{task: output}` of several",
        {200: json_of("The result, whole at any size", {})},
        [params.RUN_ID, params.WAIT],
        errors=[404, 409, 422, 429, 500],
        description=_RESULT,
    ),
    Operation(
        "POST",
        "/runs/{run_id}/retry",
        retry_run,
        "Retry a run that has ended, as a new run",
        {200: json_of("Accepted and queued", RETRIED)},
        [params.RUN_ID, key_param()],
        json_body(ref("RunRetryRequest"), required=False),
        errors=[404, 409, 413, 415, 422],
        description=_RETRY,
    ),
]
