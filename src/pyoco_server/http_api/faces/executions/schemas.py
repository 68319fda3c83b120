"""The schemas of the executions face: what is sent, and what is answered."""

from __future__ import annotations

import msgspec

from pyoco_server.http_api.faces.executions.commands import FORMS
from pyoco_server.http_api.faces.executions.event_mapping import EventType
from pyoco_server.http_api.faces.executions.requests import CreateExecution
from pyoco_server.http_api.routing.schemas import DATE_TIME, REF, TEXT, Schema, array, or_null, record
from pyoco_server.lifecycle.graph import ATTEMPTS_MAX, BACKOFF_SEC_MAX, FACTOR_MAX, SPAN_SEC_MAX, TASKS_MAX

_ID = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}
_ACCEPTED = record(
    ["executionId", "command", "accepted", "correlationId", "idempotencyKey"],
    {
        "executionId": TEXT,
        "command": TEXT,
        "accepted": {"const": True},
        "correlationId": TEXT,
        "idempotencyKey": TEXT,
    },
    additionalProperties=False,
)
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": SPAN_SEC_MAX}
_GRAPH_NODE = record(
    ["id"],
    {
        "id": _ID,
        "type": {"enum": ["task", "wait"], "default": "task"},
        "after": {"type": "array", "items": _ID, "uniqueItems": True},
        "join": {"enum": ["all_success", "any_success", "all_done"], "default": "all_success"},
        "retry": record(
            [],
            {
                "max_attempts": {"type": "integer", "minimum": 1, "maximum": ATTEMPTS_MAX},
                "backoff_sec": {"type": "number", "minimum": 0, "maximum": BACKOFF_SEC_MAX},
                "factor": {"type": "number", "minimum": 1, "maximum": FACTOR_MAX},
            },
            additionalProperties=False,
        ),
        "timeout_sec": _SECONDS,
        "prompt": {"type": "object"},
        "wait_key": {"type": "string", "minLength": 1},
        "wait_timeout_sec": _SECONDS,
        "on_timeout": {"enum": ["fail", "succeed"]},
    },
    additionalProperties=False,
)
_GRAPH_HEAD = {"graphId": _ID, "version": {"type": "integer"}, "createdAt": DATE_TIME, "digest": TEXT}
_SUMMARY = {
    "executionId": TEXT,
    "status": {"enum": ["ACTIVE", "COMPLETED", "FAILED", "CANCELED"]},
    "graphId": TEXT,
    "graphVersion": or_null({"type": "integer"}),
    "driver": {"enum": ["client", "worker"]},
    "createdAt": DATE_TIME,
    "startedAt": or_null(DATE_TIME),
    "endedAt": or_null(DATE_TIME),
    "cancelRequestedAt": or_null(DATE_TIME),
    "archived": {"type": "boolean"},
    "error": or_null({"type": "object"}),
}
_NODE = {
    "nodeId": TEXT,
    "status": {"enum": ["IDLE", "READY", "RUNNING", "WAITING", "SUCCEEDED", "FAILED", "CANCELED"]},
    "canceledByExecution": {"type": "boolean"},
    "attempt": {"type": "integer"},
    "workerId": or_null(TEXT),
    "progress": or_null({"type": "number"}),
    "message": or_null(TEXT),
    "waitKey": or_null(TEXT),
    "prompt": or_null({"type": "object"}),
    "input": {},
    "output": {},
    "error": or_null({"type": "object"}),
    "startedAt": or_null(DATE_TIME),
    "endedAt": or_null(DATE_TIME),
}
_EVENT = {
    "eventId": {"type": "string", "format": "uuid"},
    "executionId": TEXT,
    "seq": {"type": "integer", "minimum": 1},
    "type": {"enum": list(EventType)},
    "occurredAt": DATE_TIME,
    "actor": record(["kind"], {"kind": {"enum": ["system", "user", "scheduler", "external"]}, "id": TEXT}),
    "correlationId": TEXT,
    "causationId": TEXT,
    "schemaVersion": {"const": 1},
    "payload": {"type": "object"},
    "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
_OPTIONAL = frozenset({"correlationId", "causationId"})

_BODIES = sorted({form.body for form in FORMS} | {CreateExecution}, key=lambda body: body.__name__)
SCHEMAS: dict[str, Schema] = {
    **msgspec.json.schema_components(_BODIES, ref_template=REF)[1],
    "ExecutionCommandAccepted": _ACCEPTED,
    "ExecutionError": record(
        ["error"],
        {
            "error": record(
                ["code", "message", "details"],
                {"code": TEXT, "message": TEXT, "details": {"type": "object"}},
                additionalProperties=False,
            )
        },
        additionalProperties=False,
    ),
    "GraphDefinition": record(
        ["nodes"],
        {"nodes": {"type": "array", "items": _GRAPH_NODE, "minItems": 1, "maxItems": TASKS_MAX}},
    ),
    "Graph": record(
        [*_GRAPH_HEAD, "nodes"], _GRAPH_HEAD | {"nodes": {"type": "array", "items": _GRAPH_NODE}}
    ),
    "GraphList": record(
        ["graphs"],
        {
            "graphs": {
                "type": "array",
                "items": record(
                    [*_GRAPH_HEAD, "nodeCount"], _GRAPH_HEAD | {"nodeCount": {"type": "integer"}}
                ),
            },
            "nextCursor": TEXT,
        },
    ),
    "ExecutionSummary": record(list(_SUMMARY), _SUMMARY),
    "Execution": record(
        [*_SUMMARY, "input", "nodes"],
        _SUMMARY
        | {"input": {"type": "object"}, "nodes": {"type": "array", "items": record(list(_NODE), _NODE)}},
    ),
    "ExecutionEvent": record([name for name in _EVENT if name not in _OPTIONAL], _EVENT),
    "ExecutionVerified": record(
        ["ok", "events", "head", "problems"],
        {
            "ok": {"type": "boolean"},
            "events": {"type": "integer"},
            "head": TEXT,
            "problems": array(TEXT),
        },
    ),
    "ExecutionWhy": record(
        ["summary", "reasons", "refused"],
        {
            "summary": TEXT,
            "reasons": {"type": "array", "items": {"type": "object"}},
            "refused": {"type": "array", "items": {"type": "object"}},
        },
    ),
}
