"""The schemas of the recheck face: requests and responses."""

from __future__ import annotations

from pyoco_server.http_api.faces.recheck.errors import WORDS
from pyoco_server.http_api.routing.schemas import DATE_TIME, Schema, array, count, record, ref
from pyoco_server.recheck import request_body as limits
from pyoco_server.recheck.catalogue import ID_CHARS_MAX
from pyoco_server.recheck.checks import DAYS_MAX
from pyoco_server.recheck.judging import KINDS
from pyoco_server.recheck.thresholds import METRICS, StrategyHealth


def text(least: int, most: int) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most}


def nullable(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]}


ID: Schema = {"type": "string", "pattern": "^[a-z0-9._-]+$", "minLength": 1, "maxLength": ID_CHARS_MAX}
ULID: Schema = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}
RUN_ID: Schema = {"type": "string", "format": "uuid"}
HEALTH: Schema = {"type": "string", "enum": [one.value for one in StrategyHealth]}
NUMBERS: Schema = record(list(METRICS), {name: {"type": ["number", "null"]} for name in METRICS})
_WINDOW: Schema = {
    "description": f"From and to (at most {DAYS_MAX} days), or lookback_days; never both.",
    "oneOf": [
        record(["from", "to"], {"from": {"type": "string"}, "to": {"type": "string"}}),
        record(["lookback_days"], {"lookback_days": count(1, maximum=DAYS_MAX)}),
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
    "tags": array({"type": "string"}),
    "owner": {"type": ["string", "null"]},
    "metadata": {"type": "object"},
    "flow": {"type": "string"},
    "threshold_profile": {"type": "string"},
}
_SEEN: Schema = {"health": HEALTH, "last_checked_at": nullable(DATE_TIME)}

SCHEMAS: dict[str, Schema] = {
    "RecheckError": record(
        ["error", "message"],
        {
            "error": {"type": "string", "enum": list(WORDS)},
            "message": {"type": "string"},
            "retry_after": count(1),
        },
        additionalProperties=False,
    ),
    "RecheckWindow": _WINDOW,
    "RecheckRequest": record(
        ["strategies", "reason"],
        {
            "strategies": array(ID, minItems=1, maxItems=limits.STRATEGIES_MAX),
            "params": record(
                [],
                {
                    "recalc_metrics": array({"type": "string", "enum": list(METRICS)}),
                    "retrain": {"type": "boolean", "default": False},
                },
            ),
        }
        | _SHARED,
    ),
    "RecheckAllRequest": record(
        ["filter", "reason"],
        {
            "filter": record(
                [],
                {
                    "tags_any": array({"type": "string"}, minItems=1),
                    "health": array(HEALTH, minItems=1),
                    "instrument_any": array({"type": "string"}, minItems=1),
                },
            ),
            "batch_size": count(10, maximum=100, default=25),
        }
        | _SHARED,
    ),
    "RecheckAccepted": record(
        ["status", "request_id", "estimated", "dry_run"],
        {
            "status": {"const": "accepted"},
            "request_id": ULID,
            "estimated": record(["strategies", "batches"], {"strategies": count(), "batches": count()}),
            "dry_run": {"type": "boolean"},
            "dag": record(["name", "run_id"], {"name": {"type": "string"}, "run_id": RUN_ID}),
        },
        additionalProperties=False,
    ),
    "RecheckStatus": record(
        ["request_id", "status", "submitted_at", "last_update", "progress", "summary", "artifacts"],
        {
            "request_id": ULID,
            "status": {"type": "string", "enum": ["running", "success", "failed"]},
            "dry_run": {"type": "boolean"},
            "reason": {"type": "string"},
            "trace_id": {"type": "string"},
            "submitted_at": DATE_TIME,
            "last_update": DATE_TIME,
            "progress": record(
                progress := [
                    "total_batches",
                    "completed_batches",
                    "total_strategies",
                    "completed_strategies",
                ],
                {name: count() for name in progress},
            ),
            "summary": record(
                ["success", "failed", "health"],
                {
                    "success": count(),
                    "failed": count(),
                    "health": record([], {one.value: count() for one in StrategyHealth}),
                },
            ),
            "artifacts": array(ref("RecheckArtifact")),
            "dag": record(
                ["name", "run_id", "run_ids"],
                {"name": {"type": "string"}, "run_id": RUN_ID, "run_ids": array(RUN_ID, minItems=1)},
            ),
        },
    ),
    "RecheckArtifact": record(
        ["artifact_id", "kind", "created_at", "bytes_size"],
        {
            "artifact_id": count(),
            "kind": {"type": "string", "enum": list(KINDS)},
            "created_at": DATE_TIME,
            "bytes_size": count(),
        },
    ),
    "RecheckResult": record(
        ["completed_at", "health", "metrics", "result_digest", "request_id"],
        {
            "completed_at": DATE_TIME,
            "health": HEALTH,
            "metrics": NUMBERS,
            "result_digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
            "request_id": ULID,
        },
    ),
    "StrategyItem": record(
        ["id", "title", "instrument", "enabled", "last_health", "last_checked_at", "tags"],
        {name: _ENTRY[name] for name in ("id", "title", "instrument", "enabled", "tags")}
        | {"last_health": HEALTH, "last_checked_at": nullable(DATE_TIME)},
    ),
    "StrategyPage": record(
        ["items", "page", "page_size", "total"],
        {"items": array(ref("StrategyItem")), "page": count(1), "page_size": count(10, maximum=100)}
        | {"total": count()},
    ),
    "StrategyEntry": record(list(_ENTRY), _ENTRY),
    "StrategyEntryWritten": record([], _ENTRY),
    "StrategyDetail": record(
        ["strategy", "summary", "recent_results", "artifacts"],
        {
            "strategy": record([*_ENTRY, *_SEEN], _ENTRY | _SEEN),
            "summary": record(
                ["window_days", "kpi_avg", "last_completed_at"],
                {"window_days": count(1), "kpi_avg": NUMBERS, "last_completed_at": nullable(DATE_TIME)},
            ),
            "recent_results": array(ref("RecheckResult")),
            "artifacts": array(ref("RecheckArtifact")),
        },
    ),
    "StrategyResults": record(["items"], {"items": array(ref("RecheckResult"))}),
    "SignedArtifact": record(
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
