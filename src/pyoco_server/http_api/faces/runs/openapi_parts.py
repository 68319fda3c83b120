"""What the descriptions of the runs face are made of."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.runs.params import LIMIT_DEFAULT, LIMIT_MAX
from pyoco_server.http_api.requests.idempotency import HEADER, REPLAYED
from pyoco_server.operations.idempotency.key_scope import KEY_CHARS_MAX

REF = "#/components/schemas/{name}"
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


def answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": REF.format(name=name)}


def errors(*statuses: int) -> dict[str, Any]:
    return {str(status): answer("Error", ref("Error")) for status in statuses}


def query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


RUN_ID = {"name": "run_id", "in": "path", "required": True, "schema": {"type": "string"}}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX},
    "description": "Sent again with the same key, this has no second effect: the first answer comes again, "
    f"with `{REPLAYED}: true`. 409 for the same key with another body.",
}
INCLUDE = query(
    "include",
    {"type": "array", "items": {"enum": ["records", "full", "all"]}},
    "With task records.",
)
LIMIT = query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    "How many at most.",
)
STATUSES = {"enum": ["PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"]}
ACCEPTED: dict[str, Any] = {
    "type": "object",
    "required": ["run_id", "status"],
    "properties": {"run_id": {"type": "string", "format": "uuid"}, "status": {"const": "PENDING"}},
}
YAML_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["workflow", "flow_name"],
    "properties": {
        "workflow": {"type": "string", "format": "binary", "description": "The flow.yaml, as a file."},
        "flow_name": {"type": "string", "description": "What the run is called; the file has no name."},
        "tag": {"type": "string", "description": "Routing tag: who may run it."},
    },
}
