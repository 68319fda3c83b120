"""The description of logs on the runs face, and of tickets."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.runs.openapi_parts import RUN_ID, answer, errors, query
from pyoco_server.operations.logs.pages import LINES_DEFAULT, LINES_MAX

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER = {"type": "integer", "minimum": 1, "maximum": LINES_MAX, "default": LINES_DEFAULT}
_PAGE = {
    "type": "object",
    "required": ["entries", "next_token", "complete", "truncated"],
    "properties": {
        "entries": {"type": "array", "items": {"type": "object"}},
        "next_token": _TEXT,
        "complete": {"type": "boolean"},
        "truncated": {"type": "boolean"},
        "searched": {
            "type": "object",
            "description": "How far a search has looked. `paused_by`: its budget; `next_token` goes on.",
            "required": ["to_line", "lines", "paused_by"],
            "properties": {
                "to_line": {"type": "integer"},
                "lines": {"type": "integer"},
                "paused_by": {"type": ["string", "null"], "enum": ["time", "bytes", None]},
            },
        },
    },
}
_TICKET = {
    "type": "object",
    "required": ["ticket", "path", "expires_at"],
    "properties": {"ticket": _TEXT, "path": _TEXT, "expires_at": {"type": "number"}},
}
_SINCE = query("since_token", _TEXT, "Only what came after this token.")

PATHS: dict[str, Any] = {
    "/runs/{run_id}/logs": {
        "get": {
            "tags": ["runs"],
            "summary": "What it printed: pages of JSON, or the whole log as lines or text",
            "operationId": "get_logs",
            "parameters": [
                RUN_ID,
                _SINCE,
                query("from_line", {"type": "integer", "minimum": 1}, "Begin with this line."),
                query("tail", _NUMBER, "The last so many lines."),
                query("limit", _NUMBER, "How many lines at most."),
                query("q", _TEXT, "Only lines with this text."),
                query("regex", {"type": "boolean"}, "`q` is a pattern of RE2, of bounded size."),
                query("task", _TEXT, "Only what this task printed."),
                query("since", _TEXT, "Only what is not older: unix seconds, or RFC 3339."),
            ],
            "responses": {
                "200": answer("A page, or the whole log as lines or text", _PAGE),
                "206": {"description": "The part that was asked for"},
                "304": {"description": "Nothing has changed"},
            }
            | errors(403, 404, 406, 416, 422, 429, 503),
        }
    },
    "/runs/{run_id}/logs/stream": {
        "get": {
            "tags": ["runs"],
            "summary": "What it prints, as server-sent events",
            "operationId": "stream_logs",
            "parameters": [RUN_ID, _SINCE],
            "responses": {
                "200": {
                    "description": "The stream",
                    "content": {"text/event-stream": {"schema": {"type": "string"}}},
                },
                "204": {"description": "The run is over, and nothing came after: do not come back"},
            }
            | errors(403, 404, 406, 422, 429, 503),
        }
    },
    "/tickets": {
        "post": {
            "tags": ["runs"],
            "summary": "A ticket: one connection to one address within a minute (`?ticket=`)",
            "operationId": "issue_ticket",
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {"type": "object", "required": ["path"], "properties": {"path": _TEXT}}
                    }
                },
            },
            "responses": {"201": answer("The ticket", _TICKET)} | errors(403, 413, 422, 503),
        }
    },
}
