"""The schemas of requests about schedules."""

from __future__ import annotations

from pyoco_server.http_api.faces.runs.schedules.form import (
    INTERVAL_SEC_MAX,
    INTERVAL_SEC_MIN,
    JITTER_SEC_MAX,
    NAME_CHARS_MAX,
)
from pyoco_server.http_api.faces.runs.schemas import YAML_FORM
from pyoco_server.http_api.routing.schemas import BOOLEAN, DATE_TIME, Schema, array
from pyoco_server.operations.schedule_edits import BACKFILL_RUNNING_MAX
from pyoco_server.schedules.record import CatchUp, Overlap, SkipReason, StartOrigin

WHEN: Schema = {
    "run_at": DATE_TIME | {"description": "Run once, at this instant. With its offset."},
    "interval_seconds": {
        "type": "number",
        "minimum": INTERVAL_SEC_MIN,
        "maximum": INTERVAL_SEC_MAX,
        "description": "Run repeatedly, at this interval.",
    },
    "start_at": DATE_TIME
    | {"description": "The first time. With interval_seconds a past instant sets the phase."},
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
    "end_at": DATE_TIME | {"description": "With interval_seconds or cron: nothing is due after it."},
    "jitter_seconds": {
        "type": "number",
        "minimum": 0,
        "maximum": JITTER_SEC_MAX,
        "description": "Runs start up to this much later, spread evenly.",
    },
}
OPTIONS: Schema = {
    "name": {"type": "string", "maxLength": NAME_CHARS_MAX},
    "overlap": {
        "enum": [*Overlap],
        "default": Overlap.ALLOW,
        "description": "What happens to an occurrence that is due while a run of the schedule goes on.",
    },
    "catch_up": {
        "enum": [*CatchUp],
        "default": CatchUp.LAST,
        "description": "Which occurrences that were missed in an outage are started late.",
    },
    "catch_up_within_seconds": {"type": "number", "description": "With catch_up all_within: up to how late."},
    "planned_at_param": {
        "type": "string",
        "description": "The name of a parameter that gets the planned instant, in ISO 8601.",
    },
}
PAUSED: Schema = {"paused": BOOLEAN | {"description": "Create it paused."}}
FORM: Schema = YAML_FORM | {"properties": YAML_FORM["properties"] | WHEN | OPTIONS | PAUSED}
_RUNS: Schema = {
    "params": {"type": "object"},
    "tag": {"type": "string", "description": "Routing tag: which workers execute it; else `default`."},
    "tags": {"type": "array", "items": {"type": "string"}},
}
BODY: Schema = {
    "type": "object",
    "required": ["flow_name"],
    "properties": {"flow_name": {"type": "string"}} | _RUNS | WHEN | OPTIONS | PAUSED,
}


def _or_null(properties: Schema) -> Schema:
    """Null removes what was set."""
    return {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in properties.items()}


EDIT: Schema = {
    "type": "object",
    "required": ["revision"],
    "properties": {"revision": {"type": "integer", "description": "That of the schedule as it was read."}}
    | _RUNS
    | _or_null(WHEN | OPTIONS),
}
BACKFILL: Schema = {
    "type": "object",
    "required": ["from", "to"],
    "properties": {
        "from": DATE_TIME,
        "to": DATE_TIME,
        "max_running": {
            "type": "integer",
            "minimum": 1,
            "maximum": BACKFILL_RUNNING_MAX,
            "default": 1,
            "description": "How many runs of the schedule go on at a time; one if overlap is not allow.",
        },
    },
}
_OCCURRENCES: Schema = {
    "type": "object",
    "required": ["number", "outcome", "first_at", "last_at", "count", "recorded_at", "origin"],
    "properties": {
        "number": {"type": "integer", "description": "Of the entry, counted by the schedule."},
        "outcome": {"enum": ["started", "skipped"]},
        "first_at": {"type": "number", "description": "The planned instant, or the first of several."},
        "last_at": {"type": "number"},
        "count": {"type": ["integer", "null"], "description": "Null: more than 10,000."},
        "recorded_at": {"type": "number"},
        "origin": {"enum": [*StartOrigin]},
        "reason": {"enum": [*SkipReason, None], "description": "Why there is no run."},
        "run_id": {"type": ["string", "null"]},
    },
}
OCCURRENCES: Schema = {
    "type": "object",
    "required": ["occurrences", "next_before"],
    "properties": {
        "occurrences": array(_OCCURRENCES),
        "next_before": {"type": ["integer", "null"], "description": "Null: this is the last page."},
    },
}
