"""The description of everything under `/executions` that only looks."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.executions.openapi_parts import (
    EXECUTION_ID,
    answer,
    errors,
    header,
    limit,
    query,
    ref,
)
from pyoco_server.http_api.faces.executions.reading_routes import (
    EVENTS_DEFAULT,
    EVENTS_MAX,
    LIMIT_DEFAULT,
    LIMIT_MAX,
    SEQ_MAX,
    STATUSES,
)

_SEQ = {"type": "integer", "minimum": 0, "maximum": SEQ_MAX}


def _get(name: str, summary: str, parameters: list[Any], said: dict[str, Any], *wrong: int) -> dict[str, Any]:
    return {
        "get": {
            "tags": ["executions"],
            "summary": summary,
            "operationId": name,
            "parameters": parameters,
            "responses": said | errors(403, *wrong, 422, 503),
        }
    }


def _events(description: str) -> dict[str, Any]:
    return {
        "200": answer(
            description,
            {
                "type": "object",
                "required": ["executionId", "events", "hasMore"],
                "properties": {
                    "executionId": {"type": "string"},
                    "events": {"type": "array", "items": ref("ExecutionEvent")},
                    "hasMore": {"type": "boolean"},
                },
            },
        )
    }


_LIST = {
    "type": "object",
    "required": ["executions"],
    "properties": {
        "executions": {"type": "array", "items": ref("ExecutionSummary")},
        "nextCursor": {"type": "string"},
    },
}
_STATE = {
    "allOf": [ref("Execution"), {"type": "object", "required": ["atSeq"], "properties": {"atSeq": _SEQ}}]
}
_STREAM = {
    "200": {
        "description": "Server-sent events; the id of each is its seq",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    "204": {"description": "It is over, and the reader has seen all of it"},
}
_ONE = "/executions/{executionId}"

PATHS: dict[str, Any] = {
    "/executions": _get(
        "list_executions",
        "Executions, those that changed last first; archived ones are left out",
        [
            query("status", {"enum": list(STATUSES)}, "Only those that stand so."),
            query("graphId", {"type": "string"}, "Only of this graph, or `flow:<name>`."),
            limit(LIMIT_DEFAULT, LIMIT_MAX),
            query("cursor", {"type": "string"}, "Where the page before ended: its `nextCursor`."),
        ],
        {"200": answer("A page", _LIST)},
    ),
    _ONE: _get(
        "get_execution",
        "One execution with its nodes, as its log has it",
        [EXECUTION_ID],
        {"200": answer("The execution", ref("Execution"))},
        404,
    ),
    f"{_ONE}/events": _get(
        "list_execution_events",
        "What happened to it, numbered from 1",
        [EXECUTION_ID, query("afterSeq", _SEQ, "Only later ones."), limit(EVENTS_DEFAULT, EVENTS_MAX)],
        _events("Events"),
        404,
    ),
    f"{_ONE}/state": _get(
        "get_execution_state",
        "As it was after its first events",
        [EXECUTION_ID, query("atSeq", _SEQ | {"minimum": 1}, "How many of them; without: all.")],
        {"200": answer("The execution as it was", _STATE)},
        404,
    ),
    f"{_ONE}/stream": _get(
        "stream_execution",
        "Its events as they happen, from the first one or after Last-Event-ID; closes after the last",
        [
            EXECUTION_ID,
            query("afterSeq", _SEQ, "Like Last-Event-ID, for whoever cannot send a header."),
            header("Last-Event-ID", {"type": "string"}, "The seq of the last event that was seen."),
        ],
        _STREAM,
        404,
    ),
    f"{_ONE}/why": _get(
        "explain_execution",
        "In words: what it waits for, or what decided its end, and what was refused",
        [EXECUTION_ID],
        {"200": answer("Why", ref("ExecutionWhy"))},
        404,
    ),
    f"{_ONE}/verify": _get(
        "verify_execution",
        "Whether its history is whole: the chain, the numbers, and what they fold into",
        [EXECUTION_ID],
        {"200": answer("What was found", ref("ExecutionVerified"))},
        404,
    ),
}
