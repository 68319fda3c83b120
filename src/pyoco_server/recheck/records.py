"""What is stored of rechecks: a request once it is accepted, and what became of each of its batches."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.recheck.batches import Batch
from pyoco_server.recheck.thresholds import StrategyHealth


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`plan`: its batches; None when they are many, and then they lie in the object named `plan_object`."""

    request_id: str
    tenant: str
    client_id: str
    reason: str
    submitted_at: float
    strategies: int
    batches: int
    dry_run: bool
    window: dict[str, Any] | None = None
    params: dict[str, Any] = {}
    trace_id: str | None = None
    run_tenant: str | None = None
    run_api_key_id: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    plan: tuple[Batch, ...] | None = None
    plan_object: str | None = None


class Artifact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: str
    name: str
    content_type: str
    bytes_size: int
    object: str


class StrategyResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one strategy in one request. `error`: why there are no metrics."""

    strategy: str
    health: StrategyHealth
    digest: str
    metrics: dict[str, float | None] = {}
    error: str | None = None
    artifacts: tuple[Artifact, ...] = ()

    @property
    def failed(self) -> bool:
        return self.error is not None


class BatchOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one batch: written once, all of it."""

    request_id: str
    batch: int
    completed_at: float
    results: tuple[StrategyResult, ...]
