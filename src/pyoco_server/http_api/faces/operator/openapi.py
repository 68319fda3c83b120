"""What OpenAPI says of the operator's routes: their words are read by hand, so they are described by hand."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.operator import wire
from pyoco_server.operations.fleet.wheels import WheelAction
from pyoco_server.operations.fleet.workers import WorkerState

Described = dict[str, Any]

_ERROR = {
    "type": "object",
    "required": ["detail", "message"],
    "properties": {
        "detail": {},
        "err_id": {"type": "string"},
        "msg_id": {"type": "string"},
        "message": {"type": "string"},
    },
}


def _answers(description: str, schema: Described, *errors: int, kind: str = "application/json") -> Described:
    content = {"content": {kind: {"schema": schema}}}
    wrong = {"description": "Error", "content": {"application/json": {"schema": _ERROR}}}
    return {"200": {"description": description} | content} | {str(status): wrong for status in errors}


def _query(name: str, schema: Described, description: str) -> Described:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def _path(name: str) -> Described:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _limit(default: int, most: int) -> Described:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return _query("limit", schema, "How many at most.")


def _body(kind: str, properties: Described, *, required: list[str], least: int = 0) -> Described:
    schema: Described = {"type": "object", "properties": properties, "required": required}
    if least:
        schema["minProperties"] = least
    return {"required": bool(required or least), "content": {kind: {"schema": schema}}}


_OBJECTS = {"type": "array", "items": {"type": "object"}}
_OBJECT = {"type": "object"}
_BOOL = {"type": "boolean"}
_TEXT = {"type": "string"}
_BYTES = {"type": "string", "format": "binary"}

WORKERS: Described = {
    "parameters": [
        _query("scope", {"enum": ["active", "all"], "default": "active"}, "Those alive, or all there were."),
        _query("state", {"enum": list(WorkerState)}, "Only workers in this state."),
        _query("include_hidden", _BOOL | {"default": False}, "Those hidden too."),
        _limit(wire.WORKERS_DEFAULT, wire.WORKERS_MAX),
    ],
    "responses": _answers("Workers", _OBJECTS, 401, 403, 422, 503),
}
WORKERS_STREAM: Described = {
    "parameters": [
        _query(
            "timeout_sec",
            {"type": "integer", "minimum": 1, "maximum": wire.STREAM_SEC_MAX, "default": wire.STREAM_SEC_MAX},
            "After how long it ends.",
        ),
    ],
    "responses": _answers(
        "`event: workers` with `{workers, gone, all}`: `all` there are first, also those that stopped, were "
        "lost or are hidden, then what changed; `gone` has the ids of those that are kept no more",
        _TEXT,
        401,
        403,
        422,
        503,
        kind="text/event-stream",
    ),
}
WORKER_PATCH: Described = {
    "description": "At least one member. `draining` is asked of the process that runs now: it takes no new "
    "runs, goes on with those it has, and says so in `draining` of its entry. A worker that is started anew "
    "does not drain. 409 where no process runs.",
    "parameters": [_path("worker_id")],
    "requestBody": _body("application/json", {"hidden": _BOOL, "draining": _BOOL}, required=[], least=1),
    "responses": _answers("What was asked for", _OBJECT, 401, 403, 404, 409, 422, 503),
}
METRICS: Described = {
    "responses": _answers("Prometheus text format 0.0.4", _TEXT, 401, 403, 503, kind="text/plain"),
}
WHEELS: Described = {"responses": _answers("Wheels", _OBJECTS, 401, 403, 503)}
WHEEL_HISTORY: Described = {
    "parameters": [
        _limit(wire.HISTORY_DEFAULT, wire.HISTORY_MAX),
        _query("wheel_name", _TEXT, "Only of this file name."),
        _query("action", {"enum": list(WheelAction)}, "Only this action."),
    ],
    "responses": _answers("Entries", _OBJECTS, 401, 403, 422, 503),
}
WHEEL_UPLOAD: Described = {
    "requestBody": _body(
        "multipart/form-data",
        {"wheel": _BYTES, "replace": _BOOL | {"default": True}, "tags": _TEXT},
        required=["wheel"],
    ),
    "responses": _answers("The wheel as it is kept", _OBJECT, 401, 403, 409, 413, 422, 503),
}
WHEEL_DOWNLOAD: Described = {
    "parameters": [_path("wheel_name")],
    "responses": _answers("Its bytes", _BYTES, 401, 403, 404, 503, kind="application/octet-stream"),
}
WHEEL_DELETE: Described = {
    "parameters": [_path("wheel_name")],
    "responses": _answers("Deleted", _OBJECT, 401, 403, 404, 503),
}
LETTERS: Described = {
    "parameters": [
        _limit(wire.LETTERS_DEFAULT, wire.LETTERS_MAX),
        _query("reason", _TEXT, "Only letters with this reason, like execution_error."),
        _query("cursor", _TEXT, "Where the page before ended: its `next_cursor`."),
    ],
    "responses": _answers("Letters without their messages, and `next_cursor`", _OBJECT, 401, 403, 422, 503),
}
LETTER: Described = {
    "parameters": [_path("letter_id")],
    "responses": _answers("The letter, and the run it was redriven as", _OBJECT, 401, 403, 404, 503),
}
KNOWN_KEY: Described = {
    "description": "The first request that came with it, and `others` if it was used at several places. Only "
    "the caller's own keys are known here. `answer` is null until `state` is `done`.",
    "parameters": [_path("key")],
    "responses": _answers("The request and its answer", _OBJECT, 401, 403, 404, 422, 503),
}
REDRIVE: Described = {
    "parameters": [_path("letter_id")],
    "requestBody": _body("application/json", {"again": _BOOL | {"default": False}}, required=[]),
    "responses": _answers("The new run", _OBJECT, 401, 403, 404, 409, 422, 503),
}
APPROVALS: Described = {
    "parameters": [
        _limit(wire.APPROVALS_DEFAULT, wire.APPROVALS_MAX),
        _query("cursor", _TEXT, "Where the page before ended: its `next_cursor`."),
    ],
    "responses": _answers("Tasks that wait, and `next_cursor`", _OBJECT, 401, 403, 422, 503),
}
FLOWS: Described = {"responses": _answers("Flows, by name", _OBJECTS, 401, 403, 503)}
SYSTEM: Described = {"responses": _answers("How it stands", _OBJECT, 401, 403, 503)}
CALLER: Described = {
    "responses": _answers("Tenant, id, principal and scopes; null without keys", _OBJECT, 401, 403)
}
