"""The schemas of the recheck face: what goes in, and what every answer is made of."""

from __future__ import annotations

from typing import Any

from pyoco_server.http_api.faces.recheck.errors import WORDS
from pyoco_server.recheck import asked as limits
from pyoco_server.recheck.judging import KINDS
from pyoco_server.recheck.strategies import ID_CHARS_MAX
from pyoco_server.recheck.thresholds import METRICS, StrategyHealth
from pyoco_server.recheck.windows import DAYS_MAX

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def an_object(required: list[str], properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "required": required, "properties": properties} | more


def a_list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items} | more


def text(least: int, most: int) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most}


def count(least: int = 0, **more: Any) -> Schema:
    return {"type": "integer", "minimum": least} | more


def nullable(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]}


ID: Schema = {"type": "string", "pattern": "^[a-z0-9._-]+$", "minLength": 1, "maxLength": ID_CHARS_MAX}
ULID: Schema = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}
RUN_ID: Schema = {"type": "string", "format": "uuid"}
INSTANT: Schema = {"type": "string", "format": "date-time"}
HEALTH: Schema = {"type": "string", "enum": [one.value for one in StrategyHealth]}
NUMBERS: Schema = an_object(list(METRICS), {name: {"type": ["number", "null"]} for name in METRICS})
_WINDOW: Schema = {
    "description": f"From and to (at most {DAYS_MAX} days), or lookback_days; never both.",
    "oneOf": [
        an_object(["from", "to"], {"from": {"type": "string"}, "to": {"type": "string"}}),
        an_object(["lookback_days"], {"lookback_days": count(1, maximum=DAYS_MAX)}),
    ],
}
_SHARED: Schema = {
    "window": ref("RecheckWindow"),
    "reason": text(1, limits.REASON_CHARS_MAX),
    "dry_run": {"type": "boolean", "default": True},
    "trace_id": text(1, limits.TRACE_ID_CHARS_MAX),
}
_ENTRY: Schema = {
    "id": ID,
    "title": {"type": "string"},
    "instrument": {"type": ["string", "null"]},
    "enabled": {"type": "boolean"},
    "tags": a_list({"type": "string"}),
    "owner": {"type": ["string", "null"]},
    "metadata": {"type": "object"},
    "flow": {"type": "string"},
    "threshold_profile": {"type": "string"},
}
_SEEN: Schema = {"health": HEALTH, "last_checked_at": nullable(INSTANT)}

SCHEMAS: dict[str, Schema] = {
    "RecheckError": an_object(
        ["error", "message"],
        {
            "error": {"type": "string", "enum": list(WORDS)},
            "message": {"type": "string"},
            "retry_after": count(1),
        },
        additionalProperties=False,
    ),
    "RecheckWindow": _WINDOW,
    "RecheckRequest": an_object(
        ["strategies", "reason"],
        {
            "strategies": a_list(ID, minItems=1, maxItems=limits.STRATEGIES_MAX),
            "params": an_object(
                [],
                {
                    "recalc_metrics": a_list({"type": "string", "enum": list(METRICS)}),
                    "retrain": {"type": "boolean", "default": False},
                },
            ),
        }
        | _SHARED,
    ),
    "RecheckAllRequest": an_object(
        ["filter", "reason"],
        {
            "filter": an_object(
                [],
                {
                    "tags_any": a_list({"type": "string"}, minItems=1),
                    "health": a_list(HEALTH, minItems=1),
                    "instrument_any": a_list({"type": "string"}, minItems=1),
                },
            ),
            "batch_size": count(10, maximum=100, default=25),
        }
        | _SHARED,
    ),
    "RecheckAccepted": an_object(
        ["status", "request_id", "estimated", "dry_run"],
        {
            "status": {"const": "accepted"},
            "request_id": ULID,
            "estimated": an_object(["strategies", "batches"], {"strategies": count(), "batches": count()}),
            "dry_run": {"type": "boolean"},
            "dag": an_object(["name", "run_id"], {"name": {"type": "string"}, "run_id": RUN_ID}),
        },
        additionalProperties=False,
    ),
    "RecheckStatus": an_object(
        ["request_id", "status", "submitted_at", "last_update", "progress", "summary", "artifacts"],
        {
            "request_id": ULID,
            "status": {"type": "string", "enum": ["running", "success", "failed"]},
            "dry_run": {"type": "boolean"},
            "reason": {"type": "string"},
            "trace_id": {"type": "string"},
            "submitted_at": INSTANT,
            "last_update": INSTANT,
            "progress": an_object(
                progress := [
                    "total_batches",
                    "completed_batches",
                    "total_strategies",
                    "completed_strategies",
                ],
                {name: count() for name in progress},
            ),
            "summary": an_object(
                ["success", "failed", "health"],
                {
                    "success": count(),
                    "failed": count(),
                    "health": an_object([], {one.value: count() for one in StrategyHealth}),
                },
            ),
            "artifacts": a_list(ref("RecheckArtifact")),
            "dag": an_object(
                ["name", "run_id", "run_ids"],
                {"name": {"type": "string"}, "run_id": RUN_ID, "run_ids": a_list(RUN_ID, minItems=1)},
            ),
        },
    ),
    "RecheckArtifact": an_object(
        ["artifact_id", "kind", "created_at", "bytes_size"],
        {
            "artifact_id": count(),
            "kind": {"type": "string", "enum": list(KINDS)},
            "created_at": INSTANT,
            "bytes_size": count(),
        },
    ),
    "RecheckResult": an_object(
        ["completed_at", "health", "metrics", "result_digest", "request_id"],
        {
            "completed_at": INSTANT,
            "health": HEALTH,
            "metrics": NUMBERS,
            "result_digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
            "request_id": ULID,
        },
    ),
    "StrategyItem": an_object(
        ["id", "title", "instrument", "enabled", "last_health", "last_checked_at", "tags"],
        {name: _ENTRY[name] for name in ("id", "title", "instrument", "enabled", "tags")}
        | {"last_health": HEALTH, "last_checked_at": nullable(INSTANT)},
    ),
    "StrategyPage": an_object(
        ["items", "page", "page_size", "total"],
        {"items": a_list(ref("StrategyItem")), "page": count(1), "page_size": count(10, maximum=100)}
        | {"total": count()},
    ),
    "StrategyEntry": an_object(list(_ENTRY), _ENTRY),
    "StrategyEntryWritten": an_object([], _ENTRY),
    "StrategyDetail": an_object(
        ["strategy", "summary", "recent_results", "artifacts"],
        {
            "strategy": an_object([*_ENTRY, *_SEEN], _ENTRY | _SEEN),
            "summary": an_object(
                ["window_days", "kpi_avg", "last_completed_at"],
                {"window_days": count(1), "kpi_avg": NUMBERS, "last_completed_at": nullable(INSTANT)},
            ),
            "recent_results": a_list(ref("RecheckResult")),
            "artifacts": a_list(ref("RecheckArtifact")),
        },
    ),
    "StrategyResults": an_object(["items"], {"items": a_list(ref("RecheckResult"))}),
    "SignedArtifact": an_object(
        ["artifact_id", "signed_url", "expires_in", "kind", "content_type"],
        {
            "artifact_id": count(),
            "signed_url": {"type": "string", "format": "uri"},
            "expires_in": {"const": 300},
            "kind": {"type": "string", "enum": list(KINDS)},
            "content_type": {"type": "string"},
        },
    ),
}
