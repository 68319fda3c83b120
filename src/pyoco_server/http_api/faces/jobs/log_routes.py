"""`/jobs/{id}/logs`: the output of a job as pages, as a growing file, and as a stream."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.jobs import request_context, wire
from pyoco_server.http_api.faces.jobs.errors import job_not_found
from pyoco_server.http_api.requests.log_params import LogWords
from pyoco_server.http_api.responses.logs import log_answer, log_responses
from pyoco_server.http_api.routing.operation import Content, Operation, events
from pyoco_server.http_api.routing.params import LAST_EVENT_ID, TICKET
from pyoco_server.http_api.routing.schemas import ref
from pyoco_server.http_api.streaming.log_stream import check_accept, log_stream
from pyoco_server.store.runs.log import StoredRun

WORDS = LogWords(
    since_token="sinceToken",
    from_line="fromLine",
    next_token="nextToken",
    to_line="toLine",
    paused_by="pausedBy",
)


async def get_logs(request: Request) -> Response:
    gateway = ready_gateway(request)
    return await log_answer(request, gateway, await request_context.found_job(request), WORDS)


async def stream_logs(request: Request) -> Response:
    gateway = ready_gateway(request)
    check_accept(request)
    since = WORDS.since().read(request)
    with job_not_found():
        return await log_stream(request, gateway, request_context.job_id_of(request), since, shown)


def shown(stored: StoredRun) -> bytes:
    return msgspec.json.encode(wire.job(stored.run))


_LOGS = """As JSON a page; as `application/x-ndjson` or `text/plain` the whole log, one line per entry. It
only grows at its end: `Range: bytes=<have>-` returns what is new. `ETag`, `If-None-Match`, `Range` and
`If-Range` work for every form."""
_STREAM = """`event: logEntry` with the log's token as `id:`, replayed from the start, from `Last-Event-ID` or
from `sinceToken`, then live; `event: status` when the job has changed; `event: end`, then it closes."""
OPERATIONS = [
    Operation(
        "GET",
        "/jobs/{job_id}/logs",
        get_logs,
        "Output of a job",
        log_responses(ref("LogPage")),
        [request_context.JOB_ID, *WORDS.params()],
        errors=[400, 404, 406, 416, 422, 429],
        description=_LOGS,
        name="get_job_logs",
    ),
    Operation(
        "GET",
        "/jobs/{job_id}/logs/stream",
        stream_logs,
        "Output of a job as server-sent events",
        {200: events(), 204: Content("The job has ended, and everything was sent: do not reconnect")},
        [request_context.JOB_ID, WORDS.since(), LAST_EVENT_ID, TICKET],
        errors=[400, 404, 406, 429],
        description=_STREAM,
        name="stream_job_logs",
    ),
]
