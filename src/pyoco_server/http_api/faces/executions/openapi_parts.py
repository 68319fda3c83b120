"""What the descriptions of this face are made of."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.executions.event_mapping import EventType
from pyoco_server.lifecycle.graph import ATTEMPTS_MAX, BACKOFF_SEC_MAX, FACTOR_MAX, SPAN_SEC_MAX, TASKS_MAX

REF = "#/components/schemas/{name}"
_ID = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}
_TEXT = {"type": "string"}
_INSTANT = {"type": "string", "format": "date-time"}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": REF.format(name=name)}


def answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def errors(*statuses: int) -> dict[str, Any]:
    return {str(status): answer("Error", ref("ExecutionError")) for status in statuses}


def query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def limit(default: int, most: int) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return query("limit", schema, "How many at most.")


def header(name: str, schema: dict[str, Any], description: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "schema": schema, "description": description}


def path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(required: list[str], properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties} | more


EXECUTION_ID, NODE_ID, GRAPH_ID = path("executionId"), path("nodeId"), path("graphId")
ACCEPTED = _object(
    ["executionId", "command", "accepted", "correlationId", "idempotencyKey"],
    {
        "executionId": _TEXT,
        "command": _TEXT,
        "accepted": {"const": True},
        "correlationId": _TEXT,
        "idempotencyKey": _TEXT,
    },
    additionalProperties=False,
)
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": SPAN_SEC_MAX}
_GRAPH_NODE = _object(
    ["id"],
    {
        "id": _ID,
        "type": {"enum": ["task", "wait"], "default": "task"},
        "after": {"type": "array", "items": _ID, "uniqueItems": True},
        "join": {"enum": ["all_success", "any_success", "all_done"], "default": "all_success"},
        "retry": _object(
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
_GRAPH_HEAD = {"graphId": _ID, "version": {"type": "integer"}, "createdAt": _INSTANT, "digest": _TEXT}
_SUMMARY = {
    "executionId": _TEXT,
    "status": {"enum": ["ACTIVE", "COMPLETED", "FAILED", "CANCELED"]},
    "graphId": _TEXT,
    "graphVersion": _or_null({"type": "integer"}),
    "driver": {"enum": ["client", "worker"]},
    "createdAt": _INSTANT,
    "startedAt": _or_null(_INSTANT),
    "endedAt": _or_null(_INSTANT),
    "cancelRequestedAt": _or_null(_INSTANT),
    "archived": {"type": "boolean"},
    "error": _or_null({"type": "object"}),
}
_NODE = {
    "nodeId": _TEXT,
    "status": {"enum": ["IDLE", "READY", "RUNNING", "WAITING", "SUCCEEDED", "FAILED", "CANCELED"]},
    "canceledByExecution": {"type": "boolean"},
    "attempt": {"type": "integer"},
    "workerId": _or_null(_TEXT),
    "progress": _or_null({"type": "number"}),
    "message": _or_null(_TEXT),
    "waitKey": _or_null(_TEXT),
    "prompt": _or_null({"type": "object"}),
    "input": {},
    "output": {},
    "error": _or_null({"type": "object"}),
    "startedAt": _or_null(_INSTANT),
    "endedAt": _or_null(_INSTANT),
}
_EVENT = {
    "eventId": {"type": "string", "format": "uuid"},
    "executionId": _TEXT,
    "seq": {"type": "integer", "minimum": 1},
    "type": {"enum": list(EventType)},
    "occurredAt": _INSTANT,
    "actor": _object(["kind"], {"kind": {"enum": ["system", "user", "scheduler", "external"]}, "id": _TEXT}),
    "correlationId": _TEXT,
    "causationId": _TEXT,
    "schemaVersion": {"const": 1},
    "payload": {"type": "object"},
    "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
_OPTIONAL = frozenset({"correlationId", "causationId"})
_LIST_OF_TEXT = {"type": "array", "items": _TEXT}

SCHEMAS: dict[str, Any] = {
    "ExecutionError": _object(
        ["error"],
        {
            "error": _object(
                ["code", "message", "details"],
                {"code": _TEXT, "message": _TEXT, "details": {"type": "object"}},
                additionalProperties=False,
            )
        },
        additionalProperties=False,
    ),
    "GraphDefinition": _object(
        ["nodes"],
        {"nodes": {"type": "array", "items": _GRAPH_NODE, "minItems": 1, "maxItems": TASKS_MAX}},
    ),
    "Graph": _object(
        [*_GRAPH_HEAD, "nodes"], _GRAPH_HEAD | {"nodes": {"type": "array", "items": _GRAPH_NODE}}
    ),
    "GraphList": _object(
        ["graphs"],
        {
            "graphs": {
                "type": "array",
                "items": _object(
                    [*_GRAPH_HEAD, "nodeCount"], _GRAPH_HEAD | {"nodeCount": {"type": "integer"}}
                ),
            },
            "nextCursor": _TEXT,
        },
    ),
    "ExecutionSummary": _object(list(_SUMMARY), _SUMMARY),
    "Execution": _object(
        [*_SUMMARY, "input", "nodes"],
        _SUMMARY
        | {"input": {"type": "object"}, "nodes": {"type": "array", "items": _object(list(_NODE), _NODE)}},
    ),
    "ExecutionEvent": _object([name for name in _EVENT if name not in _OPTIONAL], _EVENT),
    "ExecutionVerified": _object(
        ["ok", "events", "head", "problems"],
        {
            "ok": {"type": "boolean"},
            "events": {"type": "integer"},
            "head": _TEXT,
            "problems": _LIST_OF_TEXT,
        },
    ),
    "ExecutionWhy": _object(
        ["summary", "reasons", "refused"],
        {
            "summary": _TEXT,
            "reasons": {"type": "array", "items": {"type": "object"}},
            "refused": {"type": "array", "items": {"type": "object"}},
        },
    ),
}
