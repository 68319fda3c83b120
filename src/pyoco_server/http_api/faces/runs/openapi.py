"""The description of `/runs` for OpenAPI. Written by hand, because its routes are not FastAPI's."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.http_api.faces.runs.wire import LIMIT_DEFAULT, LIMIT_MAX, WAIT_SEC_MAX, RunSubmitRequest
from pyoco_server.lifecycle.snapshot import RunSnapshot, RunSummary

_REF = "#/components/schemas/{name}"
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


def add_to(schema: dict[str, Any]) -> dict[str, Any]:
    models = [RunSubmitRequest, RunSnapshot, RunSummary]
    _, described = msgspec.json.schema_components(models, ref_template=_REF)
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components |= described | {"Error": _ERROR}
    schema["paths"] |= _PATHS
    return schema


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(name=name)}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): _answer("Error", _ref("Error")) for status in statuses}


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


_RUN_ID = {"name": "run_id", "in": "path", "required": True, "schema": {"type": "string"}}
_INCLUDE = _query(
    "include",
    {"type": "array", "items": {"enum": ["records", "full", "all"]}},
    "With task records.",
)
_STATUSES = {"enum": ["PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"]}
_ACCEPTED = {
    "type": "object",
    "required": ["run_id", "status"],
    "properties": {"run_id": {"type": "string", "format": "uuid"}, "status": {"const": "PENDING"}},
}

_PATHS: dict[str, Any] = {
    "/runs": {
        "post": {
            "tags": ["runs"],
            "summary": "Submit a run",
            "operationId": "submit_run",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _ref("RunSubmitRequest")}},
            },
            "responses": {"200": _answer("Accepted and queued", _ACCEPTED)} | _errors(403, 413, 422, 503),
        },
        "get": {
            "tags": ["runs"],
            "summary": "List runs, newest first",
            "operationId": "list_runs",
            "parameters": [
                _query("status", _STATUSES, "Only runs that stand so."),
                _query("flow", {"type": "string"}, "Only runs of this flow."),
                _query("tag", {"type": "string"}, "Only runs routed by this tag."),
                _query(
                    "limit",
                    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
                    "How many at most.",
                ),
                _INCLUDE,
            ],
            "responses": {
                "200": _answer(
                    "Summaries, or snapshots with `include`",
                    {"type": "array", "items": {"anyOf": [_ref("RunSummary"), {"type": "object"}]}},
                )
            }
            | _errors(403, 422, 503),
        },
    },
    "/runs/{run_id}": {
        "get": {
            "tags": ["runs"],
            "summary": "One run, as its log has it",
            "operationId": "get_run",
            "parameters": [
                _RUN_ID,
                _INCLUDE,
                _query(
                    "wait",
                    {"type": "number", "minimum": 0, "maximum": WAIT_SEC_MAX},
                    "Answer when the run is over, or after this many seconds.",
                ),
            ],
            "responses": {"200": _answer("The snapshot", {"type": "object"})} | _errors(403, 404, 422, 503),
        }
    },
    "/runs/{run_id}/tasks": {
        "get": {
            "tags": ["runs"],
            "summary": "Its tasks with their records",
            "operationId": "get_tasks",
            "parameters": [_RUN_ID],
            "responses": {"200": _answer("Tasks", {"type": "object"})} | _errors(403, 404, 503),
        }
    },
    "/runs/{run_id}/cancel": {
        "post": {
            "tags": ["runs"],
            "summary": "Ask it to stop; accepted once, never undone",
            "operationId": "cancel_run",
            "parameters": [_RUN_ID],
            "responses": {"200": _answer("The snapshot", {"type": "object"})} | _errors(403, 404, 422, 503),
        }
    },
}
