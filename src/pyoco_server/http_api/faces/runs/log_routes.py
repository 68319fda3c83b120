"""`/runs/{run_id}/logs`: what a run printed, as pages or as a file that grows."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.http_api.callers import caller_of
from pyoco_server.http_api.faces.runs.asking import ready_gateway, run_id_of
from pyoco_server.http_api.log_answers import log_answer
from pyoco_server.http_api.log_questions import LogWords
from pyoco_server.operations import query

WORDS = LogWords(since_token="since_token", from_line="from_line", next_token="next_token")


async def get_logs(request: Request) -> Response:
    gateway = ready_gateway(request)
    stored = await query.get_run(gateway.store, run_id_of(request), tenant_id=caller_of(request).tenant_id)
    return await log_answer(request, gateway, stored, WORDS)


ROUTES = [Route("/runs/{run_id}/logs", get_logs, methods=["GET"])]
