"""Errors of this face: one flat body, eight codes. A request that cannot be accepted is always 400."""

from __future__ import annotations

from pyoco_server.errors import (
    Conflict,
    Forbidden,
    Internal,
    Invalid,
    Limited,
    NotFound,
    PyocoError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from pyoco_server.http_api.responses.error_table import ErrorTable, FrameworkRefusal
from pyoco_server.json_value import JsonObject
from pyoco_server.texts import Language

_SAID: dict[type[PyocoError], tuple[int, str]] = {
    Invalid: (400, "BAD_REQUEST"),
    TooLarge: (400, "BAD_REQUEST"),
    FrameworkRefusal: (400, "BAD_REQUEST"),
    Unauthenticated: (401, "UNAUTHORIZED"),
    Forbidden: (403, "FORBIDDEN"),
    NotFound: (404, "NOT_FOUND"),
    Conflict: (409, "IDEMPOTENCY_CONFLICT"),
    Limited: (429, "RATE_LIMITED"),
    Unavailable: (502, "AIRFLOW_DOWN"),
    Internal: (500, "INTERNAL_ERROR"),
}


class _Table(ErrorTable):
    def status_of(self, error: PyocoError) -> int:
        return self.statuses[next(kind for kind in type(error).__mro__ if kind in self.statuses)]


def word_of(error: Exception) -> str:
    kinds = type(error).__mro__ if isinstance(error, PyocoError) else [Internal]
    return next(_SAID[kind][1] for kind in kinds if kind in _SAID)


def _body(error: PyocoError, language: Language) -> JsonObject:
    body: JsonObject = {"error": word_of(error), "message": error.public_message}
    if isinstance(error, Limited):
        body["retry_after"] = round(error.retry_after_sec)
    return body


def _problem(body: JsonObject) -> JsonObject:
    more = {name: body[name] for name in ("error", "retry_after") if name in body}
    return {"title": body["error"], "detail": body["message"]} | more


TABLE = _Table({kind: status for kind, (status, _) in _SAID.items()}, _body, _problem)
WORDS = tuple(dict.fromkeys(word for _, word in _SAID.values()))
