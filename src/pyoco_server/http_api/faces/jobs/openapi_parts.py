"""What the descriptions of this face are made of."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.jobs.wire import STAGE_OF
from pyoco_server.names import TAG_CHARS_MAX, TAGS_MAX

_TEXT: dict[str, Any] = {"type": "string"}
_INSTANT: dict[str, Any] = {"type": "string", "format": "date-time"}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def body(name: str) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": ref(name)}}}


def errors(*statuses: int) -> dict[str, Any]:
    return {str(status): answer("Error", ref("JobError")) for status in statuses}


def query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": _TEXT, "description": description}


def number(default: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


JOB_ID = {"name": "job_id", "in": "path", "required": True, "schema": _TEXT}
NOTHING = {"204": {"description": "Done, or as it was already"}}

_TAG = {"type": "string", "minLength": 1, "maxLength": TAG_CHARS_MAX}
_TAGS = {"type": "array", "items": _TAG, "maxItems": TAGS_MAX}
_JOB = {
    "id": _TEXT,
    "status": {"enum": list(STAGE_OF)},
    "createdAt": _INSTANT,
    "startedAt": _or_null(_INSTANT),
    "completedAt": _or_null(_INSTANT),
    "tags": {"type": "array", "items": _TEXT},
    "flow": _TEXT,
    "error": _or_null(_TEXT),
    "progress": _or_null({"type": "integer", "minimum": 0, "maximum": 100}),
    "result": {"description": "What it has come to, up to 64 KiB; larger ones are at /runs/{id}/result."},
}
_ENTRY = {
    "seq": {"type": "integer", "description": "The number of the line, from 1 and without gaps."},
    "timestamp": _INSTANT,
    "message": _TEXT,
    "stream": {"enum": ["stdout", "stderr", "logging", "system"]},
    "task": _TEXT,
    "attempt": {"type": "integer"},
    "level": _TEXT,
}
SCHEMAS: dict[str, Any] = {
    "Job": _object(list(_JOB), _JOB),
    "JobPage": _object(["jobs"], {"jobs": {"type": "array", "items": ref("Job")}, "nextToken": _TEXT}),
    "JobRequest": _object(
        ["parameters"],
        {
            "parameters": {"type": "object"},
            "tags": _TAGS,
            "flow": {"type": "string", "description": "Which flow; PYOCO_JOBS_FLOW if not named."},
            "tag": {"type": "string", "description": "Routing tag: who may run it."},
        },
    ),
    "TagRequest": _object(["tag"], {"tag": _TAG}),
    "LogEntry": _object(["seq", "timestamp", "message", "stream"], _ENTRY),
    "LogPage": _object(
        ["entries", "nextToken", "complete", "truncated"],
        {
            "entries": {"type": "array", "items": ref("LogEntry")},
            "nextToken": _TEXT,
            "complete": {"type": "boolean", "description": "The job is over and this was the rest."},
            "truncated": {"type": "boolean", "description": "Lines are missing: retention, or a limit."},
            "searched": _object(
                ["toLine", "lines", "pausedBy"],
                {
                    "toLine": {"type": "integer", "description": "The last line that was searched."},
                    "lines": {"type": "integer", "description": "Of so many."},
                    "pausedBy": {
                        "type": ["string", "null"],
                        "enum": ["time", "bytes", None],
                        "description": "The budget that was used up; `nextToken` goes on from there.",
                    },
                },
            ),
        },
    ),
    "JobError": _object(
        ["error"],
        {"error": _object(["code", "message", "details"], {"code": _TEXT, "message": _TEXT, "details": {}})},
    ),
}
