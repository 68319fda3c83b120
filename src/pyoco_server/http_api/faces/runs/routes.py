"""`/runs`: HTTP in and out. Plain Starlette routes, because these are the ones that are called all day."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.errors import NotFound
from pyoco_server.http_api.answers import json_answer
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.operations import cancel, query, submit, watch
from pyoco_server.tags import is_run_id


async def submit_run(request: Request) -> Response:
    gateway = _ready(request)
    wanted = wire.submission(await request.body(), request.headers)
    stored = await submit.submit(gateway.store, wanted)
    return json_answer(wire.accepted(stored))


async def get_run(request: Request) -> Response:
    gateway = _ready(request)
    run_id = _run_id(request)
    records = wire.wants_records(request.query_params.getlist("include"))
    wait_sec = wire.wait_sec(dict(request.query_params))
    if wait_sec:
        stored = await watch.wait_for_end(
            gateway.store, gateway.read_model, run_id, timeout_sec=wait_sec, whole=records
        )
    else:
        stored = await query.get_run(gateway.store, run_id, whole=records)
    return json_answer(wire.snapshot(stored, records=records))


async def get_tasks(request: Request) -> Response:
    gateway = _ready(request)
    stored = await query.get_run(gateway.store, _run_id(request), whole=True)
    return json_answer(wire.tasks(stored))


async def list_runs(request: Request) -> Response:
    gateway = _ready(request)
    asked = dict(request.query_params)
    detailed = wire.wants_records(request.query_params.getlist("include"))
    wanted, limit = wire.list_filter(asked), wire.list_limit(asked)
    runs = await query.list_runs(gateway.read_model, wanted, limit)
    if not detailed:
        return json_answer([wire.summary(run) for run in runs])
    stored = await query.get_many(gateway.store, [run.run_id for run in runs])
    return json_answer([wire.snapshot(one, records=True) for one in stored])


async def cancel_run(request: Request) -> Response:
    gateway = _ready(request)
    reason = wire.cancel_reason(await request.body())
    applied = await cancel.cancel_run(gateway.store, _run_id(request), reason=reason)
    return json_answer(wire.snapshot(cancel.as_asked(applied), records=False))


ROUTES = [
    Route("/runs", submit_run, methods=["POST"]),
    Route("/runs", list_runs, methods=["GET"]),
    Route("/runs/{run_id}", get_run, methods=["GET"]),
    Route("/runs/{run_id}/tasks", get_tasks, methods=["GET"]),
    Route("/runs/{run_id}/cancel", cancel_run, methods=["POST"]),
]

# For `shortcut`: the same functions without a router in between.
HOT = {("POST", "/runs"): submit_run, ("GET", "/runs"): list_runs}
HOT_ONE = ("GET", "/runs/", get_run)


def _ready(request: Request) -> Any:
    gateway = request.app.state.gateway
    gateway.check()
    return gateway


def _run_id(request: Request) -> str:
    """What cannot be a run id is one that does not exist."""
    run_id = request.path_params["run_id"]
    if not is_run_id(run_id):
        raise NotFound("There is no such run. Check the id, or list runs with GET /runs.")
    return str(run_id)
