"""The schemas of the jobs face: request and response bodies."""

from __future__ import annotations

from pyoco_server.http_api.faces.jobs.wire import STAGE_OF
from pyoco_server.http_api.routing.schemas import DATE_TIME, TEXT, Schema, or_null, record, ref
from pyoco_server.names import TAG_CHARS_MAX, TAGS_MAX

TAG = {"type": "string", "minLength": 1, "maxLength": TAG_CHARS_MAX}
_TAGS = {"type": "array", "items": TAG, "maxItems": TAGS_MAX}
_JOB = {
    "id": TEXT,
    "status": {"enum": list(STAGE_OF)},
    "createdAt": DATE_TIME,
    "startedAt": or_null(DATE_TIME),
    "completedAt": or_null(DATE_TIME),
    "tags": {"type": "array", "items": TEXT},
    "flow": TEXT,
    "error": or_null(TEXT),
    "progress": or_null({"type": "integer", "minimum": 0, "maximum": 100}),
    "result": {"description": "The result, up to 64 KiB; larger ones are at /runs/{id}/result."},
}
_ENTRY = {
    "seq": {"type": "integer", "description": "The number of the line, from 1 and without gaps."},
    "timestamp": DATE_TIME,
    "message": TEXT,
    "stream": {"enum": ["stdout", "stderr", "logging", "system"]},
    "task": TEXT,
    "attempt": {"type": "integer"},
    "level": TEXT,
}
SCHEMAS: dict[str, Schema] = {
    "Job": record(list(_JOB), _JOB),
    "JobPage": record(["jobs"], {"jobs": {"type": "array", "items": ref("Job")}, "nextToken": TEXT}),
    "JobRequest": record(
        ["parameters"],
        {
            "parameters": {"type": "object"},
            "tags": _TAGS,
            "flow": {"type": "string", "description": "The flow; PYOCO_JOBS_FLOW if not given."},
            "tag": {"type": "string", "description": "Routing tag: which workers execute it."},
        },
    ),
    "TagRequest": record(["tag"], {"tag": TAG}),
    "LogEntry": record(["seq", "timestamp", "message", "stream"], _ENTRY),
    "LogPage": record(
        ["entries", "nextToken", "complete", "truncated"],
        {
            "entries": {"type": "array", "items": ref("LogEntry")},
            "nextToken": TEXT,
            "complete": {"type": "boolean", "description": "The job has ended, and this page is the last."},
            "truncated": {"type": "boolean", "description": "Lines are missing: retention, or a limit."},
            "searched": record(
                ["toLine", "lines", "pausedBy"],
                {
                    "toLine": {"type": "integer", "description": "The last line that was searched."},
                    "lines": {"type": "integer", "description": "The lines of the log."},
                    "pausedBy": {
                        "type": ["string", "null"],
                        "enum": ["time", "bytes", None],
                        "description": "The limit that was reached; `nextToken` continues from there.",
                    },
                },
            ),
        },
    ),
    "JobError": record(
        ["error"],
        {"error": record(["code", "message", "details"], {"code": TEXT, "message": TEXT, "details": {}})},
    ),
}
