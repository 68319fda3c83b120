"""The error table of a face: a status and a body for every kind of error.

Each face has one table; `error_answers` finds it by the path. Most faces have the same statuses;
those with the nested body share its codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response

from pyoco_server.errors import (
    Conflict,
    Forbidden,
    IdempotencyConflict,
    Internal,
    Invalid,
    Limited,
    NotFound,
    PyocoError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from pyoco_server.http_api.middleware.refusal_log import note_refusal
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.json_value import JsonObject
from pyoco_server.texts import Language, choose_language

PROBLEM = "application/problem+json"
RETRY_AFTER_SEC = 1  # if the error has no other

# The nearest class of an error decides.
STATUSES: dict[type[PyocoError], int] = {
    Invalid: 422,
    TooLarge: 413,
    NotFound: 404,
    Conflict: 409,
    Unauthenticated: 401,
    Forbidden: 403,
    Limited: 429,
    Unavailable: 503,
    Internal: 500,
}
CODES: dict[type[PyocoError], str] = {
    Invalid: "INVALID_REQUEST",
    TooLarge: "TOO_LARGE",
    NotFound: "NOT_FOUND",
    Conflict: "CONFLICT",
    IdempotencyConflict: "IDEMPOTENCY_CONFLICT",
    Unauthenticated: "UNAUTHENTICATED",
    Forbidden: "FORBIDDEN",
    Limited: "TOO_MANY_REQUESTS",
    Unavailable: "UNAVAILABLE",
    Internal: "INTERNAL",
}


class FrameworkRefusal(PyocoError):
    """Refused by HTTP itself (a method, a content type), with its status."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}

    @property
    def name(self) -> str:
        return HTTPStatus(self.status).name


class ErrorTable(NamedTuple):
    """`problem`: makes the members of RFC 9457 (title, detail and others) from a body."""

    statuses: Mapping[type[PyocoError], int]
    body: Callable[[PyocoError, Language], JsonObject]
    problem: Callable[[JsonObject], JsonObject]

    def status_of(self, error: PyocoError) -> int:
        if isinstance(error, FrameworkRefusal):
            return error.status
        return next(self.statuses[kind] for kind in type(error).__mro__ if kind in self.statuses)

    def answer(self, request: HTTPConnection, error: Exception) -> Response:
        """The error as a response of this face. The client gets no details of an unexpected error."""
        note_refusal(request.scope, error)
        if not isinstance(error, PyocoError):
            error = Internal("Something went wrong on our side. It was logged.")
        body = self.body(error, choose_language(request.headers.get("accept-language")))
        status = self.status_of(error)
        headers = dict(getattr(error, "headers", {})) | retry_header(error, status)
        if PROBLEM not in request.headers.get("accept", ""):
            return json_answer(body, status, headers)
        problem: JsonObject = {"type": "about:blank"} | self.problem(body) | {"status": status}
        return Response(msgspec.json.encode(problem), status, headers, media_type=PROBLEM)


def retry_header(error: PyocoError, status: int) -> dict[str, str]:
    """Every 503 has `Retry-After`, and so have errors with a delay."""
    after_sec = getattr(error, "retry_after_sec", RETRY_AFTER_SEC if status == 503 else None)
    return {} if after_sec is None else {"Retry-After": str(max(1, round(after_sec)))}


def nested(codes: Mapping[type[PyocoError], str], error: PyocoError) -> JsonObject:
    return {"error": coded_error(codes, error)}


def coded_error(codes: Mapping[type[PyocoError], str], error: PyocoError) -> JsonObject:
    """`{"code", "message", "details"}`; details are always an object."""
    if isinstance(error, FrameworkRefusal):
        code = error.name
    else:
        code = next(codes[kind] for kind in type(error).__mro__ if kind in codes)
    details = {"problems": error.details} if isinstance(error.details, list) else error.details or {}
    return {"code": code, "message": error.public_message, "details": details}


def nested_problem(body: JsonObject) -> JsonObject:
    error = body["error"]
    assert isinstance(error, dict)
    return {
        "title": error["code"],
        "detail": error["message"],
        "code": error["code"],
        "details": error["details"],
    }
