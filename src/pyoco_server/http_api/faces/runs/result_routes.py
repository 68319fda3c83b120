"""`/runs/{run_id}/result`, `/retry` and `/graph`: what a run came to, another try, how it looks."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pyoco_server.http_api.faces.runs import idempotent_runs, params, wire
from pyoco_server.http_api.faces.runs.request_context import ready_gateway, run_id_of, while_allowed
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside
from pyoco_server.http_api.requests.idempotency import key_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.operations.runs import flow_graph, result, retry


async def get_result(request: Request) -> Response:
    gateway = ready_gateway(request)
    wait_sec = params.wait_sec(request.query_params)
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
    drawn = await flow_graph.drawn(gateway.store, run_id_of(request), tenant_id=tenant_id)
    nodes = [{"id": one.name, "type": one.kind, "after": one.after, "join": one.join} for one in drawn.tasks]
    return json_answer({"run_id": drawn.run_id, "nodes": nodes, "ordered": drawn.is_wired})


ROUTES = [
    Route("/runs/{run_id}/graph", get_graph, methods=["GET"]),
    Route("/runs/{run_id}/result", get_result, methods=["GET"]),
    Route("/runs/{run_id}/retry", retry_run, methods=["POST"]),
]
