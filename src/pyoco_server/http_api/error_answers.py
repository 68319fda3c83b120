"""Errors as responses. The path selects the error table; paths of no face use that of the runs face."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from pyoco_server.errors import NotFound, PyocoError, TooLarge
from pyoco_server.http_api.faces.executions import errors as executions
from pyoco_server.http_api.faces.jobs import errors as jobs
from pyoco_server.http_api.faces.recheck import errors as recheck
from pyoco_server.http_api.faces.runs import wire as runs
from pyoco_server.http_api.middleware.addresses import first_step, path_of
from pyoco_server.http_api.responses.error_table import ErrorTable, FrameworkRefusal
from pyoco_server.json_value import JsonObject

# The status that access logs commonly have for a request whose client disconnected.
CLIENT_CLOSED_REQUEST = 499

# By the first part of the path.
_TABLES: dict[str, ErrorTable] = {
    "executions": executions.TABLE,
    "graphs": executions.TABLE,
    "jobs": jobs.TABLE,
    "pdca": recheck.TABLE,
    "gui": recheck.TABLE,
}


def error_answer(request: HTTPConnection, error: Exception) -> Response:
    table = _TABLES.get(first_step(path_of(request.scope)), runs.ERRORS)
    return table.answer(request, error)


def refusal(error: PyocoError) -> JsonObject:
    """An error inside of a stream: the status that a response would have had, and the message."""
    return {"status": runs.ERRORS.status_of(error), "message": error.public_message}


async def on_error(request: Request, error: Exception) -> Response:
    return error_answer(request, error)


async def on_disconnect(request: Request, error: Exception) -> Response:
    """The client has disconnected: nothing receives this response."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses (route, method, body), in the format of the face."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return error_answer(request, nothing_here())
    if error.status_code == 413:
        return error_answer(request, TooLarge(f"{error.detail}."))
    answer = error_answer(request, FrameworkRefusal(error.status_code, error.detail))
    answer.headers.update(error.headers or {})
    return answer


def nothing_here() -> NotFound:
    return NotFound("There is nothing at this address. The routes are described at /docs.", err_id="")
