"""The description of logs, streams and sockets of the jobs face."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.jobs.openapi_parts import JOB_ID, answer, errors, header, number, query, ref
from pyoco_server.operations.logs.pages import LINES_DEFAULT, LINES_MAX

_TEXT = {"type": "string"}
_LOGS = """As JSON a page; as `application/x-ndjson` or `text/plain` the whole log, a line an entry, which
only ever grows at its end: `Range: bytes=<have>-` gives what is new. `ETag`, `If-None-Match`, `Range` and
`If-Range` hold for every form."""
_STREAM = """`event: logEntry` with the log's token as `id:`, replayed from the start, from `Last-Event-ID` or
from `sinceToken`, then live; `event: status` when the job has changed; `event: end`, then it closes."""
_SOCKET = """The server sends `status`, `log`, `heartbeat`, `error` and `end` frames; the client `subscribe`
(`sinceToken`, `logs`), `cancel` and `ping`. Nothing but `status` comes before `subscribe`."""
_SINCE = query("sinceToken", _TEXT, "Only what came after this token.")

PATHS: dict[str, Any] = {
    "/jobs/{job_id}/logs": {
        "get": {
            "tags": ["jobs"],
            "summary": "What it printed",
            "description": _LOGS,
            "operationId": "get_job_logs",
            "parameters": [
                JOB_ID,
                _SINCE,
                query("fromLine", {"type": "integer", "minimum": 1}, "Begin with this line."),
                query("tail", number(LINES_DEFAULT, LINES_MAX), "The last so many lines."),
                query("limit", number(LINES_DEFAULT, LINES_MAX), "How many lines at most."),
                query("q", _TEXT, "Only lines with this text."),
                query("regex", {"type": "boolean"}, "`q` is a pattern of RE2, of bounded size."),
                query("task", _TEXT, "Only what this task printed."),
                query("since", _TEXT, "Only what is not older: unix seconds, or RFC 3339."),
                header("Range", "A part of the representation."),
                header("If-None-Match", "Tags of what the caller has."),
            ],
            "responses": {
                "200": answer("A page, or the whole log as lines or text", ref("LogPage")),
                "206": {"description": "The part that was asked for"},
                "304": {"description": "Nothing has changed"},
                "416": answer(
                    "Nothing begins there; `Content-Range` says how much there is", ref("JobError")
                ),
            }
            | errors(400, 403, 404, 406, 422, 429, 503),
        }
    },
    "/jobs/{job_id}/logs/stream": {
        "get": {
            "tags": ["jobs"],
            "summary": "What it prints, as server-sent events",
            "description": _STREAM,
            "operationId": "stream_job_logs",
            "parameters": [
                JOB_ID,
                _SINCE,
                header("Last-Event-ID", "The id that was read last."),
                query("ticket", _TEXT, "Of POST /tickets, for those who cannot send a key."),
            ],
            "responses": {
                "200": {
                    "description": "The stream",
                    "content": {"text/event-stream": {"schema": {"type": "string"}}},
                },
                "204": {"description": "The job is over, and nothing came after: do not come back"},
            }
            | errors(400, 403, 404, 406, 429, 503),
        }
    },
    "/jobs/{job_id}/ws": {
        "get": {
            "tags": ["jobs"],
            "summary": "How it stands and what it prints, as a WebSocket",
            "description": _SOCKET,
            "operationId": "job_socket",
            "parameters": [JOB_ID, query("ticket", _TEXT, "Of POST /tickets.")],
            "responses": {"101": {"description": "A WebSocket"}} | errors(403, 404, 429, 503),
        }
    },
}
