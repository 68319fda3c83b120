"""Examples for the description of this face: requests as the document has them, and what they are answered.

A test sends the requests to a gateway and compares its answers with these, member by member.
"""

from __future__ import annotations

from typing import Any

_REQUEST_ID = "01J8TQ0C3W6Z1V9K4N8YB2H5RD"
_RUN_ID = "5b0c2f0e-6f0a-5c1d-9a53-0d7f6c1e2b34"
_CHECKED_AT = "2025-08-24T03:34:58.120Z"
_ARTIFACT = {"artifact_id": 4096, "kind": "chart", "created_at": _CHECKED_AT, "bytes_size": 2048}
_METRICS = {"winrate": 0.55, "sharpe": 1.1, "max_dd": 0.04}
_RESULT = {
    "completed_at": _CHECKED_AT,
    "health": "healthy",
    "metrics": _METRICS,
    "result_digest": "sha256:e6a9d01ae7e32f731ef7e59a99c6762de67f939c7d6859694edae62e06146601",
    "request_id": _REQUEST_ID,
}
_ENTRY = {
    "id": "strat.meanrev.m1",
    "title": "Mean reversion",
    "instrument": "USDJPY",
    "enabled": True,
    "tags": ["daily"],
    "owner": "desk-2",
    "metadata": {"since": 2019},
    "flow": "pdca_recheck",
    "threshold_profile": "default",
}
_ITEM = {name: _ENTRY[name] for name in ("id", "title", "instrument", "enabled", "tags")} | {
    "last_health": "healthy",
    "last_checked_at": _CHECKED_AT,
}

# By the name of the schema.
EXAMPLES: dict[str, Any] = {
    "RecheckRequest": {
        "strategies": ["strat.meanrev.m1"],
        "window": {"lookback_days": 14},
        "reason": "manual",
        "dry_run": True,
        "params": {"recalc_metrics": ["sharpe"]},
    },
    "RecheckAllRequest": {
        "filter": {"tags_any": ["daily"], "health": ["unknown"]},
        "batch_size": 25,
        "window": {"lookback_days": 7},
        "reason": "daily-bulk",
        "dry_run": False,
    },
    "RecheckAccepted": {
        "status": "accepted",
        "request_id": _REQUEST_ID,
        "estimated": {"strategies": 1, "batches": 1},
        "dry_run": False,
        "dag": {"name": "pdca_recheck", "run_id": _RUN_ID},
    },
    "RecheckStatus": {
        "request_id": _REQUEST_ID,
        "status": "success",
        "dry_run": False,
        "reason": "daily-bulk",
        "submitted_at": "2025-08-24T03:34:56.004Z",
        "last_update": _CHECKED_AT,
        "progress": {
            "total_batches": 1,
            "completed_batches": 1,
            "total_strategies": 1,
            "completed_strategies": 1,
        },
        "summary": {"success": 1, "failed": 0, "health": {"healthy": 1, "degraded": 0, "unknown": 0}},
        "artifacts": [_ARTIFACT],
        "dag": {"name": "pdca_recheck", "run_id": _RUN_ID, "run_ids": [_RUN_ID]},
    },
    "StrategyPage": {"items": [_ITEM], "page": 1, "page_size": 50, "total": 1},
    "StrategyEntryWritten": _ENTRY,
    "StrategyEntry": _ENTRY,
    "StrategyDetail": {
        "strategy": _ENTRY | {"health": "healthy", "last_checked_at": _CHECKED_AT},
        "summary": {"window_days": 30, "kpi_avg": _METRICS, "last_completed_at": _CHECKED_AT},
        "recent_results": [_RESULT],
        "artifacts": [_ARTIFACT],
    },
    "StrategyResults": {"items": [_RESULT]},
    "SignedArtifact": {
        "artifact_id": 4096,
        "signed_url": "http://127.0.0.1:8000/gui/artifacts/4096/content?tenant=default&token=MTk0",
        "expires_in": 300,
        "kind": "chart",
        "content_type": "image/svg+xml",
    },
}

# By status.
ERRORS: dict[str, dict[str, Any]] = {
    "400": {"error": "BAD_REQUEST", "message": "window needs from and to, or lookback_days; never both."},
    "401": {"error": "UNAUTHORIZED", "message": "The token has expired."},
    "403": {"error": "FORBIDDEN", "message": "This needs the scope pdca:recheck_all."},
    "404": {"error": "NOT_FOUND", "message": "There is no such request. Check the id."},
    "409": {
        "error": "IDEMPOTENCY_CONFLICT",
        "message": "This idempotency key was used for another request: reason differs. "
        "Send what was sent first, or use a new key.",
    },
    "429": {
        "error": "RATE_LIMITED",
        "message": "More than 10 requests of this kind (recheck_all) in a minute. Come back in 6 s.",
        "retry_after": 6,
    },
    "500": {"error": "INTERNAL_ERROR", "message": "Something went wrong on our side. It was logged."},
    "502": {
        "error": "AIRFLOW_DOWN",
        "message": "This could not be done in time. Try again, with the same key.",
    },
}
