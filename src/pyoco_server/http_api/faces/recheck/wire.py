"""The format of the recheck face: parses bodies; renders requests, strategies and results."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, parse
from pyoco_server.errors import Invalid
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.rechecks.query import SIGNED_FOR_SEC, Detail, RequestProgress
from pyoco_server.read_model.recheck_queries import KeptArtifact, ListedStrategy, PastResult
from pyoco_server.recheck.catalogue import FLOW, Strategy
from pyoco_server.recheck.records import Request, run_id_of, run_ids_of
from pyoco_server.recheck.thresholds import StrategyHealth


def body_in(raw: bytes) -> object:
    try:
        return parse(raw)
    except CanonicalJsonError as error:
        raise Invalid(f"The body is not JSON that can be accepted: {error}.") from error


def accepted(request: Request) -> bytes:
    body: JsonObject = {
        "status": "accepted",
        "request_id": request.request_id,
        "estimated": {"strategies": request.strategies, "batches": request.batches},
        "dry_run": request.dry_run,
    }
    if request.batches and not request.dry_run:
        body["dag"] = {"name": FLOW, "run_id": run_id_of(request.request_id, 0)}
    return msgspec.json.encode(body)


def standing(found: RequestProgress) -> JsonObject:
    request, tally = found.request, found.tally
    body: JsonObject = {
        "request_id": request.request_id,
        "status": found.status.value,
        "dry_run": request.dry_run,
        "reason": request.reason,
        "submitted_at": instant(request.submitted_at),
        "last_update": instant(max(request.submitted_at, tally.last_update)),
        "progress": {
            "total_batches": request.batches,
            "completed_batches": tally.batches,
            "total_strategies": request.strategies,
            "completed_strategies": tally.strategies,
        },
        "summary": {"success": tally.success, "failed": tally.failed, "health": _by_health(tally.health)},
        "artifacts": [artifact(one) for one in found.artifacts],
    }
    if request.trace_id is not None:
        body["trace_id"] = request.trace_id
    if request.batches and not request.dry_run:
        run_ids = run_ids_of(request.request_id, request.batches)
        body["dag"] = {"name": FLOW, "run_id": run_ids[0], "run_ids": run_ids}
    return body


def item(listed: ListedStrategy) -> JsonObject:
    strategy = listed.strategy
    return {
        "id": strategy.id,
        "title": strategy.title,
        "instrument": strategy.instrument,
        "enabled": strategy.enabled,
        "last_health": listed.health,
        "last_checked_at": _instant_or_null(listed.checked_at),
        "tags": list(strategy.tags),
    }


def entry(strategy: Strategy) -> JsonObject:
    return {
        "id": strategy.id,
        "title": strategy.title,
        "instrument": strategy.instrument,
        "enabled": strategy.enabled,
        "tags": list(strategy.tags),
        "owner": strategy.owner,
        "metadata": strategy.metadata,
        "flow": strategy.flow,
        "threshold_profile": strategy.threshold_profile,
    }


def detail(found: Detail, window_days: int) -> JsonObject:
    listed = found.listed
    checked = {"health": listed.health, "last_checked_at": _instant_or_null(listed.checked_at)}
    return {
        "strategy": entry(listed.strategy) | checked,
        "summary": {
            "window_days": window_days,
            "kpi_avg": found.averages,
            "last_completed_at": _instant_or_null(listed.checked_at),
        },
        "recent_results": [result(one) for one in found.results],
        "artifacts": [artifact(one) for one in found.artifacts],
    }


def result(past: PastResult) -> JsonObject:
    return {
        "completed_at": instant(past.completed_at),
        "health": past.health,
        "metrics": past.metrics,
        "result_digest": past.digest,
        "request_id": past.request_id,
    }


def artifact(kept: KeptArtifact) -> JsonObject:
    return {
        "artifact_id": kept.artifact_id,
        "kind": kept.kind,
        "created_at": instant(kept.created_at),
        "bytes_size": kept.bytes_size,
    }


def signed(kept: KeptArtifact, url: str) -> JsonObject:
    return {
        "artifact_id": kept.artifact_id,
        "signed_url": url,
        "expires_in": SIGNED_FOR_SEC,
        "kind": kept.kind,
        "content_type": kept.content_type,
    }


def instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _instant_or_null(at: float | None) -> str | None:
    return None if at is None else instant(at)


def _by_health(counted: dict[str, int]) -> dict[str, int]:
    return {one.value: counted.get(one.value, 0) for one in StrategyHealth}
