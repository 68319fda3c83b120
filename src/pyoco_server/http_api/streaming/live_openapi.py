"""The description of `GET /stream`."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.streaming.live_stream import STREAM_SEC_DEFAULT, STREAM_SEC_MAX, TOPICS_MAX

_ERROR = {
    "description": "Error",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_TOPICS = """The name of an event is its topic, its data `{event, data}` as in the stream of its own:

- `runs`: the list, as `GET /runs/stream`
- `run:<id>`: one run with its task records, as `GET /runs/{run_id}/watch?include=records`
- `events:<id>`: what happened in it, as `GET /executions/{executionId}/stream`
- `log:<id>`: what it prints, as `GET /runs/{run_id}/logs/stream`
- `workers`: as `GET /workers/stream`
- `lists`: which other lists have changed and should be read again: `{changed}` of `approvals`,
  `dead_letters`, `schedules`, `strategies`, `wheels`

`{"event": "over"}` says that a topic has no more to tell, `{"event": "refused"}` with `{status, message}`
that it cannot be followed; the others go on. Come back with the last id of each topic as `after`."""
_PATHS: dict[str, Any] = {
    "/stream": {
        "get": {
            "tags": ["live"],
            "summary": "Several streams over one connection, as server-sent events",
            "description": _TOPICS,
            "operationId": "stream",
            "parameters": [
                {
                    "name": "topic",
                    "in": "query",
                    "required": True,
                    "schema": {
                        "type": "array",
                        "items": {"type": "string"},
                        "minItems": 1,
                        "maxItems": TOPICS_MAX,
                    },
                    "description": "What to follow; repeat it for more.",
                },
                {
                    "name": "after",
                    "in": "query",
                    "required": False,
                    "schema": {"type": "array", "items": {"type": "string"}},
                    "description": "The id of an event that was read last of its topic; repeat it for more.",
                },
                {
                    "name": "timeout_sec",
                    "in": "query",
                    "required": False,
                    "schema": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": STREAM_SEC_MAX,
                        "default": STREAM_SEC_DEFAULT,
                    },
                    "description": "The stream ends after this long.",
                },
                {
                    "name": "Last-Event-ID",
                    "in": "header",
                    "required": False,
                    "schema": {"type": "string"},
                    "description": "As one more `after`: what browsers send by themselves.",
                },
            ],
            "responses": {
                "200": {
                    "description": "The stream",
                    "content": {"text/event-stream": {"schema": {"type": "string"}}},
                },
            }
            | {str(status): _ERROR for status in (401, 403, 422, 503)},
        }
    }
}


def add_to(schema: dict[str, Any]) -> dict[str, Any]:
    schema["paths"] |= _PATHS
    return schema
