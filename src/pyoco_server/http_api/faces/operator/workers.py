"""`/workers`: who works here (REQ-0015), which of them are shown (REQ-0022), and which take no new runs."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response

from pyoco_server.http_api.context import Gateway
from pyoco_server.http_api.faces.operator import wire
from pyoco_server.http_api.faces.operator.openapi import WORKER_PATCH, WORKERS, WORKERS_STREAM
from pyoco_server.http_api.faces.operator.request_context import ready_gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import small_body
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.reader_source import ReaderSource
from pyoco_server.operations.fleet import workers
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.live.worker_changes import WorkerChange, WorkerChanges

router = APIRouter()


@router.get("/workers", summary="Workers, those seen last first", openapi_extra=WORKERS)
async def list_workers(request: Request) -> Response:
    gateway = ready_gateway(request)
    wanted, limit = wire.workers_wanted(request.query_params)
    found = await workers.list_workers(
        gateway.store, gateway.read_model, wanted, limit=limit, caller=caller_of(request)
    )
    return json_answer(found)


@router.get("/workers/stream", summary="Workers as they change", openapi_extra=WORKERS_STREAM)
async def stream_workers(request: Request) -> Response:
    gateway = ready_gateway(request)
    timeout_sec = wire.stream_sec(request.query_params)
    told = open_workers(gateway, caller_of(request))
    return sse.EventStream(told, gateway.streams, timeout_sec=timeout_sec)


def open_workers(gateway: Gateway, caller: Caller) -> sse.Source:
    news: WorkerChanges = gateway.worker_news
    reader = news.subscribe(caller)
    return ReaderSource(reader, _event, leave=lambda: news.unsubscribe(reader))


@router.patch("/workers/{worker_id}", summary="Hide or drain a worker", openapi_extra=WORKER_PATCH)
async def patch_worker(request: Request) -> Response:
    gateway = ready_gateway(request)
    worker_id = request.path_params["worker_id"]
    changes = wire.worker_changes(await small_body(request))
    updated_at = await workers.patch(gateway.store, worker_id, **changes)
    return json_answer({"worker_id": worker_id} | changes | {"updated_at": updated_at})


def _event(told: WorkerChange) -> sse.EventBatch:
    """Whenever workers look otherwise than they did or are kept no more; the first has all."""
    return sse.event("workers", msgspec.json.encode(told._asdict()))
