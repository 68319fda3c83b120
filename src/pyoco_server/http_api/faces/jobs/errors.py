"""The errors of this face: one table from our errors to its codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyoco_server.errors import Invalid, NotFound, PyocoError
from pyoco_server.http_api.responses.error_table import (
    CODES,
    STATUSES,
    ErrorTable,
    coded_error,
    nested_problem,
)
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.logs.cursors import BadToken
from pyoco_server.operations.runs.erase import StillLive
from pyoco_server.operations.runs.run_list import NotOfThisList
from pyoco_server.texts import Language


class Malformed(Invalid):
    """Not JSON, or JSON with a repeated member."""


class JobNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("There is no such job. Check the id, or list them: GET /jobs.")


@contextmanager
def job_not_found() -> Iterator[None]:
    """A run that is not found is a job that is not found."""
    try:
        yield
    except NotFound:
        raise JobNotFound from None


_STATUSES = STATUSES | {Malformed: 400, NotOfThisList: 400, BadToken: 400}
_CODES = CODES | {
    Malformed: "MALFORMED_JSON",
    NotOfThisList: "INVALID_TOKEN",
    BadToken: "INVALID_TOKEN",
    JobNotFound: "JOB_NOT_FOUND",
    StillLive: "JOB_NOT_TERMINAL",
}


def error_object(error: PyocoError) -> JsonObject:
    """The error object, in an answer or a WebSocket frame."""
    return coded_error(_CODES, error)


def _body(error: PyocoError, language: Language) -> JsonObject:
    return {"error": error_object(error)}


TABLE = ErrorTable(_STATUSES, _body, nested_problem)
