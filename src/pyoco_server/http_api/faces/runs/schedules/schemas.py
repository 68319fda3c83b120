"""The schemas of `/schedules`: request bodies, and the answer to a deletion."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.runs.schedules.form import INTERVAL_SEC_MAX, INTERVAL_SEC_MIN
from pyoco_server.http_api.faces.runs.schemas import YAML_FORM
from pyoco_server.http_api.routing.schemas import DATE_TIME

_WHEN: dict[str, Any] = {
    "run_at": DATE_TIME | {"description": "Run once, at this instant. With its offset."},
    "interval_seconds": {
        "type": "number",
        "minimum": INTERVAL_SEC_MIN,
        "maximum": INTERVAL_SEC_MAX,
        "description": "Run repeatedly, at this interval.",
    },
    "start_at": DATE_TIME
    | {"description": "With interval_seconds: the first time. A past instant sets the phase."},
    "cron": {
        "type": "string",
        "description": "Five fields: minute, hour, day of month, month, day of week.",
        "example": "30 8 * * mon-fri",
    },
    "timezone": {
        "type": "string",
        "default": "UTC",
        "description": "With cron: its time zone.",
        "example": "Asia/Tokyo",
    },
}
FORM: dict[str, Any] = YAML_FORM | {"properties": YAML_FORM["properties"] | _WHEN}
BODY: dict[str, Any] = {
    "type": "object",
    "required": ["flow_name"],
    "properties": {
        "flow_name": {"type": "string"},
        "params": {"type": "object"},
        "tag": {"type": "string", "description": "Routing tag: which workers execute it; else `default`."},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    | _WHEN,
}
DELETED = {
    "type": "object",
    "required": ["schedule_id", "deleted"],
    "properties": {"schedule_id": {"type": "string"}, "deleted": {"const": True}},
}
