"""`/runs/{run_id}/logs`: the output of a run as pages, as a growing file, and as a stream."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.faces.runs.params import RUN_ID
from pyoco_server.http_api.faces.runs.request_context import run_id_of
from pyoco_server.http_api.faces.runs.schemas import LOG_PAGE
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.log_params import LogWords
from pyoco_server.http_api.responses.logs import log_answer, log_responses
from pyoco_server.http_api.routing.operation import Content, Operation, events
from pyoco_server.http_api.routing.params import LAST_EVENT_ID, TICKET
from pyoco_server.http_api.streaming.log_stream import check_accept, log_stream
from pyoco_server.operations.runs import query
from pyoco_server.store.runs.log import StoredRun

WORDS = LogWords(
    since_token="since_token",
    from_line="from_line",
    next_token="next_token",
    to_line="to_line",
    paused_by="paused_by",
)


async def get_logs(request: Request) -> Response:
    gateway = ready_gateway(request)
    stored = await query.get_run(gateway.store, run_id_of(request), tenant_id=caller_of(request).tenant_id)
    return await log_answer(request, gateway, stored, WORDS)


async def stream_logs(request: Request) -> Response:
    gateway = ready_gateway(request)
    check_accept(request)
    since = WORDS.since().read(request)
    return await log_stream(request, gateway, run_id_of(request), since, shown)


def shown(stored: StoredRun) -> bytes:
    return msgspec.json.encode(wire.snapshot(stored, records=False))


OPERATIONS = [
    Operation(
        "GET",
        "/runs/{run_id}/logs",
        get_logs,
        "Output of a run: pages of JSON, or the whole log as lines or text",
        log_responses(LOG_PAGE),
        [RUN_ID, *WORDS.params()],
        errors=[404, 406, 416, 422, 429],
    ),
    Operation(
        "GET",
        "/runs/{run_id}/logs/stream",
        stream_logs,
        "Output of a run as server-sent events",
        {200: events(), 204: Content("The run has ended, and everything was sent: do not reconnect")},
        [RUN_ID, WORDS.since(), LAST_EVENT_ID, TICKET],
        errors=[404, 406, 422, 429],
    ),
]
