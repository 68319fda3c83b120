"""`/workers`: who works here (REQ-0015), and which of them are shown (REQ-0022)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from pyoco_server.http_api.callers import caller_of
from pyoco_server.http_api.faces.operator import wire
from pyoco_server.http_api.faces.operator.asking import ready_gateway
from pyoco_server.http_api.faces.operator.described import WORKER_PATCH, WORKERS
from pyoco_server.http_api.replies import json_answer
from pyoco_server.operations import workers

router = APIRouter()


@router.get("/workers", summary="Workers, those seen last first", openapi_extra=WORKERS)
async def list_workers(request: Request) -> Response:
    gateway = ready_gateway(request)
    wanted, limit = wire.workers_wanted(request.query_params)
    found = await workers.list_workers(
        gateway.store, gateway.read_model, wanted, limit=limit, caller=caller_of(request)
    )
    return json_answer(found)


@router.patch("/workers/{worker_id}", summary="Show or hide a worker", openapi_extra=WORKER_PATCH)
async def patch_worker(request: Request) -> Response:
    gateway = ready_gateway(request)
    worker_id = request.path_params["worker_id"]
    hidden = wire.hidden_wanted(await request.body())
    updated_at = await workers.set_hidden(gateway.store, worker_id, hidden=hidden)
    return json_answer({"worker_id": worker_id, "hidden": hidden, "updated_at": updated_at})
