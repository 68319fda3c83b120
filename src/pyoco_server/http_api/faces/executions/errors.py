"""The errors of this face: one table from our errors to its statuses and codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
from pyoco_server.http_api.responses.error_table import ErrorTable, FrameworkRefusal, nested, nested_problem
from pyoco_server.operations.executions.graphs import GraphNotFound
from pyoco_server.texts import Language

_STATUSES = {
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
_CODES: dict[type[PyocoError], str] = {
    Invalid: "INVALID_REQUEST",
    TooLarge: "TOO_LARGE",
    NotFound: "NOT_FOUND",
    Conflict: "CONFLICT",
    Unauthenticated: "UNAUTHENTICATED",
    Forbidden: "FORBIDDEN",
    Limited: "TOO_MANY_REQUESTS",
    Unavailable: "UNAVAILABLE",
    Internal: "INTERNAL",
}


class ExecutionNotFound(NotFound):
    def __init__(self, execution_id: str) -> None:
        super().__init__(
            f"There is no execution {execution_id}. Check the id, or list them: GET /executions."
        )


@contextmanager
def execution_must_exist(execution_id: str) -> Iterator[None]:
    """For operations that raise NotFound for a run."""
    try:
        yield
    except NotFound:
        raise ExecutionNotFound(execution_id) from None


class NodeNotFound(NotFound):
    def __init__(self, node_id: str) -> None:
        super().__init__(f"This execution has no node {node_id}. GET the execution to see its nodes.")


class CommandRejected(Conflict):
    """A guard refused the command. `details`: which guard, and the state of the execution."""


def _code(error: PyocoError) -> str:
    match error:
        case FrameworkRefusal():
            return error.name
        case CommandRejected():
            return "COMMAND_REJECTED"
        case IdempotencyConflict():
            return "IDEMPOTENCY_CONFLICT"
        case GraphNotFound():
            return "GRAPH_NOT_FOUND"
        case ExecutionNotFound():
            return "EXECUTION_NOT_FOUND"
        case NodeNotFound():
            return "NODE_NOT_FOUND"
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def _body(error: PyocoError, language: Language) -> dict[str, Any]:
    return nested(_code(error), error)


TABLE = ErrorTable(_STATUSES, _body, nested_problem)
