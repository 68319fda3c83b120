"""What a face says when something is refused: a status and a body for every error of the tree.

Each face has one table; `error_answers` finds it by the path. Here is their form, and the nested body
that several faces share. Which words stand in it is the face's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from pyoco_server.errors import PyocoError
from pyoco_server.texts import Language

RETRY_AFTER_SEC = 1  # where nothing better is known


class FrameworkRefusal(PyocoError):
    """What a framework refuses by itself: a method, a content type. It knows its status already."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}

    @property
    def name(self) -> str:
        return HTTPStatus(self.status).name


class ErrorTable(NamedTuple):
    """`problem`: of a body, what RFC 9457 wants to know: title and detail, and members besides."""

    statuses: Mapping[type[PyocoError], int]
    body: Callable[[PyocoError, Language], dict[str, Any]]
    problem: Callable[[dict[str, Any]], dict[str, Any]]

    def status_of(self, error: PyocoError) -> int:
        if isinstance(error, FrameworkRefusal):
            return error.status
        return next(self.statuses[kind] for kind in type(error).__mro__ if kind in self.statuses)


def retry_header(error: PyocoError, status: int) -> dict[str, str]:
    """When to come back: whatever says 503 says that too."""
    after_sec = getattr(error, "retry_after_sec", RETRY_AFTER_SEC if status == 503 else None)
    return {} if after_sec is None else {"Retry-After": str(max(1, round(after_sec)))}


def nested(code: str, error: PyocoError) -> dict[str, Any]:
    """`{"error": {"code", "message", "details"}}`; details are always an object."""
    details = {"problems": error.details} if isinstance(error.details, list) else error.details or {}
    return {"error": {"code": code, "message": error.public_message, "details": details}}


def nested_problem(body: dict[str, Any]) -> dict[str, Any]:
    error = body["error"]
    return {
        "title": error["code"],
        "detail": error["message"],
        "code": error["code"],
        "details": error["details"],
    }
