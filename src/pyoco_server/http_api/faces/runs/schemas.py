"""The schemas of the runs face: request and response bodies."""

from __future__ import annotations

import msgspec

from pyoco_server.http_api.faces.runs.wire import RunRetryRequest, RunSubmitRequest
from pyoco_server.http_api.routing.schemas import REF, TEXT, Schema, ref
from pyoco_server.lifecycle.snapshot import RunSnapshot, RunSummary

ERROR = {
    "type": "object",
    "required": ["detail", "message"],
    "properties": {
        "detail": {},
        "err_id": {"type": "string"},
        "msg_id": {"type": "string"},
        "message": {"type": "string"},
    },
}
ACCEPTED: Schema = {
    "type": "object",
    "required": ["run_id", "status"],
    "properties": {"run_id": {"type": "string", "format": "uuid"}, "status": {"const": "PENDING"}},
}
RETRIED: Schema = ACCEPTED | {
    "required": ["run_id", "status", "retry_of"],
    "properties": ACCEPTED["properties"]
    | {"retry_of": {"type": "string", "format": "uuid"}, "retry_from": {"type": "string"}},
}
YAML_FORM: Schema = {
    "type": "object",
    "required": ["workflow", "flow_name"],
    "properties": {
        "workflow": {"type": "string", "format": "binary", "description": "The flow.yaml, as a file."},
        "flow_name": {"type": "string", "description": "The name of the flow; the file has none."},
        "tag": {"type": "string", "description": "Routing tag: which workers execute it."},
    },
}
SUMMARIES = {"type": "array", "items": {"anyOf": [ref("RunSummary"), {"type": "object"}]}}
_PAGE = {
    "type": "object",
    "required": ["items", "next_cursor"],
    "properties": {"items": SUMMARIES, "next_cursor": {"type": ["string", "null"]}},
}
LIST = {"anyOf": [SUMMARIES, _PAGE]}
LOG_PAGE = {
    "type": "object",
    "required": ["entries", "next_token", "complete", "truncated"],
    "properties": {
        "entries": {"type": "array", "items": {"type": "object"}},
        "next_token": TEXT,
        "complete": {"type": "boolean"},
        "truncated": {"type": "boolean"},
        "searched": {
            "type": "object",
            "description": "How far it searched. `paused_by`: the limit it reached; `next_token` continues.",
            "required": ["to_line", "lines", "paused_by"],
            "properties": {
                "to_line": {"type": "integer"},
                "lines": {"type": "integer"},
                "paused_by": {"type": ["string", "null"], "enum": ["time", "bytes", None]},
            },
        },
    },
}
TICKET = {
    "type": "object",
    "required": ["ticket", "path", "expires_at"],
    "properties": {"ticket": TEXT, "path": TEXT, "expires_at": {"type": "number"}},
}
_OR_NULL, _NUMBER_OR_NULL = {"type": ["string", "null"]}, {"type": ["number", "null"]}
_SCHEDULE: Schema = {
    "type": "object",
    "required": ["schedule_id", "flow_name", "tag", "status", "schedule_type", "next_at"],
    "properties": {
        "schedule_id": {"type": "string", "format": "uuid"},
        "name": _OR_NULL,
        "revision": {"type": "integer", "description": "Counts edits, pauses and resumptions."},
        "flow_name": {"type": "string"},
        "tag": {"type": "string"},
        "status": {"enum": ["ACTIVE", "PAUSED", "COMPLETED"]},
        "schedule_type": {"enum": ["once", "interval", "cron"]},
        "workflow_yaml_sha256": _OR_NULL | {"description": "Null for a flow that workers have."},
        "workflow_yaml_bytes": {"type": ["integer", "null"]},
        "tenant_id": _OR_NULL,
        "api_key_id": _OR_NULL,
        "created_at": {"type": "number"},
        "updated_at": {"type": "number"},
        "run_at": _NUMBER_OR_NULL,
        "interval_seconds": _NUMBER_OR_NULL,
        "start_at": _NUMBER_OR_NULL,
        "cron": _OR_NULL,
        "timezone": _OR_NULL,
        "end_at": _NUMBER_OR_NULL,
        "jitter_seconds": {"type": "number"},
        "overlap": {"enum": ["allow", "skip", "queue_one", "cancel_running"]},
        "catch_up": {"enum": ["none", "last", "all_within"]},
        "catch_up_within_seconds": _NUMBER_OR_NULL,
        "planned_at_param": _OR_NULL,
        "paused_at": _NUMBER_OR_NULL,
        "queued_at": _NUMBER_OR_NULL
        | {"description": "The occurrence that waits for the end of the runs that go on."},
        "next_run_at": _NUMBER_OR_NULL | {"description": "As next_at, with the jitter."},
        "next_at": _NUMBER_OR_NULL | {"description": "When it is due next, in unix seconds; null if never."},
        "last_at": _NUMBER_OR_NULL | {"description": "When its last run was due."},
        "last_submitted_at": _NUMBER_OR_NULL | {"description": "When its last run was submitted."},
        "last_run_id": _OR_NULL,
        "last_status": _OR_NULL
        | {"description": "The status of that run; null if it is erased or there is none."},
        "upcoming": {
            "type": "array",
            "items": {"type": "number"},
            "description": "In lists with `upcoming`: when it is due next, in unix seconds.",
        },
        "runs": {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "description": "In the answer about one schedule: how many of its stored runs have which status.",
        },
        "skip_count": {"type": "integer", "minimum": 0, "description": "Occurrences without a run."},
        "backfill": {
            "type": ["object", "null"],
            "description": "The last backfill: state (RUNNING, STOPPED, COMPLETED), from, to, next_at, "
            "total, started, existing (had a run), max_running, created_at, ended_at.",
        },
        "dispatch_count": {"type": "integer", "minimum": 0},
        "last_error": _OR_NULL | {"description": "Why the due run could not be submitted."},
    },
}
_MODELS = [RunSubmitRequest, RunRetryRequest, RunSnapshot, RunSummary]
SCHEMAS: dict[str, Schema] = {
    **msgspec.json.schema_components(_MODELS, ref_template=REF)[1],
    "Error": ERROR,
    "Schedule": _SCHEDULE,
}
