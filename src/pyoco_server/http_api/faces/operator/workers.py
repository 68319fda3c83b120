"""`/workers`: the list of workers (REQ-0015), hiding (REQ-0022) and draining them."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.operator import params, wire
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import small_body
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, events, json_body, json_of
from pyoco_server.http_api.routing.schemas import BOOLEAN, OBJECT, array, record
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.reader_source import ReaderSource
from pyoco_server.operations.fleet import workers
from pyoco_server.operations.fleet.tags import BACKLOG_MAX, tag_queues
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.live.worker_changes import WorkerChange


async def list_workers(request: Request) -> Response:
    gateway = ready_gateway(request)
    wanted, limit = wire.worker_filter(request), params.WORKERS_LIMIT.read(request)
    found = await workers.list_workers(
        gateway.store, gateway.read_model, wanted, limit=limit, caller=caller_of(request)
    )
    return json_answer(found)


async def stream_workers(request: Request) -> Response:
    gateway = ready_gateway(request)
    timeout_sec = params.TIMEOUT_SEC.read(request)
    source = open_workers(gateway, caller_of(request))
    return sse.EventStream(source, gateway.streams, timeout_sec=timeout_sec)


async def list_tags(request: Request) -> Response:
    gateway = ready_gateway(request)
    found = await tag_queues(gateway.store, gateway.read_model, caller_of(request).tenant_id)
    return json_answer([queue._asdict() for queue in found])


def open_workers(gateway: Gateway, caller: Caller) -> sse.Source:
    changes = gateway.worker_changes
    reader = changes.subscribe(caller)
    return ReaderSource(reader, _event, leave=lambda: changes.unsubscribe(reader))


async def patch_worker(request: Request) -> Response:
    gateway = ready_gateway(request)
    worker_id = request.path_params["worker_id"]
    changes = wire.worker_changes(await small_body(request))
    updated_at = await workers.patch(gateway.store, worker_id, **changes)
    return json_answer({"worker_id": worker_id} | changes | {"updated_at": updated_at})


def _event(change: WorkerChange) -> sse.EventBatch:
    """Workers that have changed or were removed; the first event has all workers."""
    return sse.event("workers", msgspec.json.encode(change._asdict()))


_STREAM = (
    "`event: workers` with `{workers, gone, all}`: `all` there are first, also those that stopped, were "
    "lost or are hidden, then what changed; `gone` has the ids of those that are kept no more"
)
_PATCH = (
    "At least one member. `draining` is asked of the process that runs now: it takes no new runs, goes on "
    "with those it has, and shows it in `draining` of its entry. A worker that is started again does not "
    "drain. 409 where no process runs."
)
_TAGS = (
    f"`backlog`: runs that wait for a worker of the tag, counted up to {BACKLOG_MAX} "
    "(`backlog_is_more`); `oldest_since`: since when the longest waiting one waits. `workers` are alive, "
    "`draining` of them take no new runs; `slots` and `free_slots` are of the others. All tenants share the "
    "workers, so the numbers are of all tenants."
)
OPERATIONS = [
    Operation(
        "GET",
        "/workers",
        list_workers,
        "Workers, those seen last first",
        {200: json_of("Workers", array(OBJECT))},
        [params.SCOPE, params.STATE, params.INCLUDE_HIDDEN, params.WORKERS_LIMIT],
        errors=[422],
    ),
    Operation(
        "GET",
        "/workers/tags",
        list_tags,
        "Backlog, oldest wait and workers of each tag",
        {200: json_of("Tags with waiting runs or live workers; those without a worker first", array(OBJECT))},
        description=_TAGS,
    ),
    Operation(
        "GET",
        "/workers/stream",
        stream_workers,
        "Workers as they change",
        {200: events(_STREAM)},
        [params.TIMEOUT_SEC],
        errors=[422, 429],
    ),
    Operation(
        "PATCH",
        "/workers/{worker_id}",
        patch_worker,
        "Hide or drain a worker",
        {200: json_of("What was asked for", OBJECT)},
        [params.WORKER_ID],
        json_body(record([], {"hidden": BOOLEAN, "draining": BOOLEAN}, minProperties=1)),
        errors=[404, 409, 413, 415, 422],
        description=_PATCH,
    ),
]
