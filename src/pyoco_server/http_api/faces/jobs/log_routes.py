"""`/jobs/{id}/logs`: what a job printed, as pages, as a file that grows, and as a stream."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.errors import NotFound
from pyoco_server.http_api.faces.jobs import request_context, wire
from pyoco_server.http_api.faces.jobs.errors import JobNotFound
from pyoco_server.http_api.requests.log_params import LogWords
from pyoco_server.http_api.responses.logs import log_answer
from pyoco_server.http_api.streaming.log_stream import check_accept, log_stream
from pyoco_server.operations.runs.query import StoredRun

WORDS = LogWords(
    since_token="sinceToken",
    from_line="fromLine",
    next_token="nextToken",
    to_line="toLine",
    paused_by="pausedBy",
)


async def get_logs(request: Request) -> Response:
    gateway = request_context.ready_gateway(request)
    return await log_answer(request, gateway, await request_context.found_job(request), WORDS)


async def stream_logs(request: Request) -> Response:
    gateway = request_context.ready_gateway(request)
    check_accept(request)
    since = request.query_params.get(WORDS.since_token)
    try:
        return await log_stream(request, gateway, request_context.job_id_of(request), since, shown)
    except NotFound:
        raise JobNotFound from None


def shown(stored: StoredRun) -> bytes:
    return msgspec.json.encode(wire.job(stored.run))


ROUTES = [
    Route("/jobs/{job_id}/logs", get_logs, methods=["GET"]),
    Route("/jobs/{job_id}/logs/stream", stream_logs, methods=["GET"]),
]
