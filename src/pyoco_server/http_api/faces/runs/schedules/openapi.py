"""The description of `/schedules` for OpenAPI."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.runs.openapi_following import SUMMARIES
from pyoco_server.http_api.faces.runs.openapi_parts import INCLUDE, LIMIT, YAML_FORM, answer, errors, ref
from pyoco_server.http_api.faces.runs.schedules.form import INTERVAL_SEC_MAX, INTERVAL_SEC_MIN

_SCHEDULE_ID = {"name": "schedule_id", "in": "path", "required": True, "schema": {"type": "string"}}
_INSTANT = {"type": "string", "format": "date-time"}
_WHEN: dict[str, Any] = {
    "run_at": _INSTANT | {"description": "Once, at this instant. With its offset."},
    "interval_seconds": {
        "type": "number",
        "minimum": INTERVAL_SEC_MIN,
        "maximum": INTERVAL_SEC_MAX,
        "description": "Again and again, this far apart.",
    },
    "start_at": _INSTANT
    | {"description": "With interval_seconds: the first time; also in the past, to count from."},
    "cron": {
        "type": "string",
        "description": "Five fields: minute, hour, day of month, month, day of week.",
        "example": "30 8 * * mon-fri",
    },
    "timezone": {
        "type": "string",
        "default": "UTC",
        "description": "With cron: whose clock counts.",
        "example": "Asia/Tokyo",
    },
}
_FORM: dict[str, Any] = YAML_FORM | {"properties": YAML_FORM["properties"] | _WHEN}
_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["flow_name"],
    "properties": {
        "flow_name": {"type": "string"},
        "params": {"type": "object"},
        "tag": {"type": "string", "description": "Routing tag: who may run it; else `default`."},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    | _WHEN,
}
_WHICH = (
    "Exactly one of `run_at`, `interval_seconds` and `cron`. After a standstill the "
    "latest missed run is made up, the ones before it are not."
)
_TEXT, _NUMBER = {"type": ["string", "null"]}, {"type": ["number", "null"]}
SCHEDULE: dict[str, Any] = {
    "type": "object",
    "required": ["schedule_id", "flow_name", "tag", "status", "schedule_type", "next_at"],
    "properties": {
        "schedule_id": {"type": "string", "format": "uuid"},
        "flow_name": {"type": "string"},
        "tag": {"type": "string"},
        "status": {"enum": ["ACTIVE", "COMPLETED"]},
        "schedule_type": {"enum": ["once", "interval", "cron"]},
        "workflow_yaml_sha256": _TEXT | {"description": "Null: of a flow that workers know."},
        "workflow_yaml_bytes": {"type": ["integer", "null"]},
        "tenant_id": _TEXT,
        "api_key_id": _TEXT,
        "created_at": {"type": "number"},
        "updated_at": {"type": "number"},
        "run_at": _NUMBER,
        "interval_seconds": _NUMBER,
        "start_at": _NUMBER,
        "cron": _TEXT,
        "timezone": _TEXT,
        "next_run_at": _NUMBER | {"description": "As next_at."},
        "next_at": _NUMBER | {"description": "When it is due, in unix seconds; null: never again."},
        "last_at": _NUMBER | {"description": "When its last run was due."},
        "last_submitted_at": _NUMBER | {"description": "When its last run was begun."},
        "last_run_id": _TEXT,
        "dispatch_count": {"type": "integer", "minimum": 0},
        "last_error": _TEXT | {"description": "Why the run that is due could not be begun."},
    },
}
_DELETED = {
    "type": "object",
    "required": ["schedule_id", "deleted"],
    "properties": {"schedule_id": {"type": "string"}, "deleted": {"const": True}},
}

PATHS: dict[str, Any] = {
    "/schedules/yaml": {
        "post": {
            "tags": ["schedules"],
            "summary": "Run a flow.yaml at its time",
            "description": _WHICH,
            "operationId": "create_yaml_schedule",
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}},
            "responses": {"200": answer("The schedule", ref("Schedule"))} | errors(403, 409, 413, 422, 503),
        }
    },
    "/schedules": {
        "post": {
            "tags": ["schedules"],
            "summary": "Run a flow that workers know at its time",
            "description": _WHICH,
            "operationId": "create_schedule",
            "requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}},
            "responses": {"200": answer("The schedule", ref("Schedule"))} | errors(403, 409, 413, 422, 503),
        },
        "get": {
            "tags": ["schedules"],
            "summary": "All schedules, the latest first",
            "operationId": "list_schedules",
            "responses": {"200": answer("Schedules", {"type": "array", "items": ref("Schedule")})}
            | errors(403, 503),
        },
    },
    "/schedules/{schedule_id}/runs": {
        "get": {
            "tags": ["schedules"],
            "summary": "The runs that it has begun, those that changed last first",
            "operationId": "list_schedule_runs",
            "parameters": [_SCHEDULE_ID, LIMIT, INCLUDE],
            "responses": {"200": answer("Summaries, or snapshots with `include`", SUMMARIES)}
            | errors(403, 404, 422, 503),
        }
    },
    "/schedules/{schedule_id}": {
        "delete": {
            "tags": ["schedules"],
            "summary": "Begin no more runs; those begun go on",
            "operationId": "delete_schedule",
            "parameters": [_SCHEDULE_ID],
            "responses": {"200": answer("Deleted", _DELETED)} | errors(403, 404, 503),
        }
    },
}
