"""`/`: the dashboard, once it is built."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.errors import NotFound
from pyoco_server.http_api.answers import error_answer


async def index(request: Request) -> Response:
    hint = "The dashboard is not part of this build. The API answers at /runs, its description at /docs."
    return error_answer(request, NotFound(hint, err_id=""))


ROUTES = [Route("/", index, methods=["GET"])]
