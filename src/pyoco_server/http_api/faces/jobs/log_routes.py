"""`/jobs/{id}/logs`: what a job printed, as pages or as a file that grows."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.http_api.faces.jobs import asking
from pyoco_server.http_api.log_answers import log_answer
from pyoco_server.http_api.log_questions import LogWords

WORDS = LogWords(since_token="sinceToken", from_line="fromLine", next_token="nextToken")


async def get_logs(request: Request) -> Response:
    gateway = asking.ready_gateway(request)
    return await log_answer(request, gateway, await asking.found_job(request), WORDS)


ROUTES = [Route("/jobs/{job_id}/logs", get_logs, methods=["GET"])]
