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


# The nearest class of an error decides.
_ERRORS: dict[type[PyocoError], tuple[int, str]] = {
    Invalid: (422, "INVALID_REQUEST"),
    TooLarge: (413, "TOO_LARGE"),
    NotFound: (404, "NOT_FOUND"),
    GraphNotFound: (404, "GRAPH_NOT_FOUND"),
    ExecutionNotFound: (404, "EXECUTION_NOT_FOUND"),
    NodeNotFound: (404, "NODE_NOT_FOUND"),
    Conflict: (409, "CONFLICT"),
    CommandRejected: (409, "COMMAND_REJECTED"),
    IdempotencyConflict: (409, "IDEMPOTENCY_CONFLICT"),
    Unauthenticated: (401, "UNAUTHENTICATED"),
    Forbidden: (403, "FORBIDDEN"),
    Limited: (429, "TOO_MANY_REQUESTS"),
    Unavailable: (503, "UNAVAILABLE"),
    Internal: (500, "INTERNAL"),
}


def _body(error: PyocoError, language: Language) -> dict[str, Any]:
    if isinstance(error, FrameworkRefusal):
        return nested(error.name, error)
    return nested(next(_ERRORS[kind][1] for kind in type(error).__mro__ if kind in _ERRORS), error)


TABLE = ErrorTable({kind: status for kind, (status, _) in _ERRORS.items()}, _body, nested_problem)
