"""Errors as answers: which face's table is asked is a matter of the path. No face: the runs face's words."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from pyoco_server.errors import Internal, Invalid, NotFound, PyocoError, TooLarge
from pyoco_server.http_api.faces.runs.wire import error_body, status_of
from pyoco_server.http_api.keyed import loggable_path
from pyoco_server.http_api.replies import json_answer as json_answer
from pyoco_server.texts import choose_language

log = logging.getLogger(__name__)

PROBLEM = "application/problem+json"


def error_answer(request: HTTPConnection, error: PyocoError) -> Response:
    status = status_of(error)
    language = choose_language(request.headers.get("accept-language"))
    body = error_body(error, language)
    headers = {}
    retry_after_sec = getattr(error, "retry_after_sec", None)
    if retry_after_sec is not None:
        headers["Retry-After"] = str(max(1, round(retry_after_sec)))
    return _answer(request, status, body, headers)


async def on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PyocoError)
    if status_of(error) >= 500:
        fields = {"err_id": error.err_id, "path": loggable_path(request.scope)}
        log.error("request failed", exc_info=error, extra=fields)
    return error_answer(request, error)


async def on_unexpected(request: Request, error: Exception) -> Response:
    log.error("request broke", exc_info=error, extra={"path": loggable_path(request.scope)})
    return error_answer(request, Internal("Something went wrong on our side. It was logged."))


async def on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    details = [{key: one[key] for key in ("loc", "msg", "type") if key in one} for one in error.errors()]
    return error_answer(request, Invalid("The request is not valid.", details=details))


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What the framework itself refuses (no such route, method, body) in the face's words."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return error_answer(
            request,
            NotFound("There is nothing at this address. The routes are described at /docs.", err_id=""),
        )
    if error.status_code == 413:
        return error_answer(request, TooLarge(f"{error.detail}."))
    body = {"detail": error.detail, "message": error.detail}
    return _answer(request, error.status_code, body, dict(error.headers or {}))


def _answer(request: HTTPConnection, status: int, body: dict[str, Any], headers: dict[str, str]) -> Response:
    if PROBLEM not in request.headers.get("accept", ""):
        return json_answer(body, status, headers)
    detail = body["detail"] if isinstance(body["detail"], str) else _sentence(body["detail"])
    problem = {"type": "about:blank", "title": body["message"], "status": status, "detail": detail}
    problem |= {key: body[key] for key in ("err_id", "msg_id") if body.get(key)}
    return Response(msgspec.json.encode(problem), status, headers, media_type=PROBLEM)


def _sentence(problems: list[dict[str, Any]]) -> str:
    """`body.tag: must match …`, each problem with its place."""
    return "; ".join(f"{_place(one)}: {one['msg']}" for one in problems)


def _place(problem: dict[str, Any]) -> str:
    place = ".".join(map(str, problem["loc"]))
    return f"{place}, line {problem['line']}, column {problem['column']}" if "line" in problem else place
