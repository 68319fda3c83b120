"""The parameters of the executions face."""

from __future__ import annotations

from pyoco_server.http_api.faces.executions.requests import (
    CORRELATION_CHARS_MAX,
    CORRELATION_HEADER,
    KEY_HEADER,
)
from pyoco_server.http_api.requests.idempotency import key_param
from pyoco_server.http_api.routing.kinds import ChoiceKind, IntegerKind, TextKind
from pyoco_server.http_api.routing.params import Param, header, path, text

EVENTS_DEFAULT, EVENTS_MAX = 500, 2_000
LIMIT_DEFAULT, LIMIT_MAX = 50, 200
SEQ_MAX = 10**12
VERSION_MAX = 10**9
STATUSES = {"ACTIVE": None, "COMPLETED": "COMPLETED", "FAILED": "FAILED", "CANCELED": "CANCELLED"}
_DIGITS_MAX = 15


def _integer(name: str, default: int, least: int, most: int, description: str) -> Param[int]:
    return Param(name, IntegerKind(least, most, _DIGITS_MAX), default, description)


EXECUTION_ID, NODE_ID, GRAPH_ID = path("executionId"), path("nodeId"), path("graphId")
KEY = key_param(KEY_HEADER, required=True, pattern=r"^[!-~]([ -~]*[!-~])?$")
CORRELATION_ID = header(
    CORRELATION_HEADER,
    "Stands in every event that comes of this; made when none is sent.",
    TextKind(CORRELATION_CHARS_MAX, {"pattern": r"^[!-~]+$"}),
)
COMMAND_HEADERS = (KEY, CORRELATION_ID)
LIMIT = _integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX, "How many at most.")
CURSOR = text("cursor", "Where the page before ended: its `nextCursor`.")
STATUS = Param[str | None](
    "status", ChoiceKind(tuple(STATUSES)), None, "Only those that stand so.", skips="empty"
)
ONLY_GRAPH = text("graphId", "Only of this graph, or `flow:<name>`.")
AFTER_SEQ = _integer("afterSeq", 0, 0, SEQ_MAX, "Only later ones.")
EVENTS_LIMIT = _integer("limit", EVENTS_DEFAULT, 1, EVENTS_MAX, "How many at most.")
AT_SEQ = Param[int | None](
    "atSeq", IntegerKind(1, SEQ_MAX, _DIGITS_MAX), None, "How many of them; without: all."
)
VERSION = Param[int | None]("version", IntegerKind(1, VERSION_MAX, _DIGITS_MAX), None, "Without: the latest.")
# Read by `stream_routes`: one place, given as a header or in the query.
LAST_SEQ = header("Last-Event-ID", "The seq of the last event that was seen.")
LAST_SEQ_IN_QUERY = Param[str | None](
    "afterSeq",
    TextKind(more=AFTER_SEQ.kind.schema()),
    None,
    "Like Last-Event-ID, for clients that cannot send a header.",
)
