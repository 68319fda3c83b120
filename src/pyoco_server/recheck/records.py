"""The stored values of rechecks: a request with its batches, and the outcome of each batch.

A batch is evaluated by one run. The id of that run is derived from the request and the number of the batch,
so a batch that is started twice has one run. The progress of a request is computed from its outcomes.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from pyoco_server.json_value import JsonObject
from pyoco_server.recheck.thresholds import StrategyHealth

BATCH_SIZE = 25


_NAMESPACE = uuid.UUID("5b0f4a6e-6f0b-5d3a-9d4e-8f0f5f6f2a51")


class Batch(msgspec.Struct, frozen=True, array_like=True):
    flow: str
    strategies: tuple[str, ...]


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`plan`: its batches; None if there are many, which are in the object `plan_object`."""

    request_id: str
    tenant: str
    client_id: str
    reason: str
    submitted_at: float
    strategies: int
    batches: int
    dry_run: bool
    window: JsonObject | None = None
    params: JsonObject = {}
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
    """The result of one strategy in one request. `error`: why there are no metrics."""

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
    """The outcome of one batch. It is written once."""

    request_id: str
    batch: int
    completed_at: float
    results: tuple[StrategyResult, ...]


class RequestStatus(StrEnum):
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the outcomes of a request."""

    batches: int = 0
    success: int = 0
    failed: int = 0
    health: dict[str, int] = {}
    last_update: float = 0.0

    @property
    def strategies(self) -> int:
        return self.success + self.failed


def tally(outcomes: Iterable[BatchOutcome]) -> Tally:
    batches, failed, success, last = 0, 0, 0, 0.0
    health: Counter[str] = Counter({one.value: 0 for one in StrategyHealth})
    for outcome in outcomes:
        batches, last = batches + 1, max(last, outcome.completed_at)
        for result in outcome.results:
            failed, success = failed + result.failed, success + (not result.failed)
            health[result.health.value] += 1
    return Tally(batches=batches, success=success, failed=failed, health=dict(health), last_update=last)


def status_of(request: Request, counted: Tally) -> RequestStatus:
    """FAILED if at least half of the strategies failed. A request without batches is a SUCCESS at once."""
    if request.dry_run or request.batches == 0:
        return RequestStatus.SUCCESS
    if counted.batches < request.batches:
        return RequestStatus.RUNNING
    return RequestStatus.FAILED if counted.failed * 2 >= request.strategies else RequestStatus.SUCCESS


def batches_of(strategies: Iterable[tuple[str, str]], size: int) -> list[Batch]:
    """`strategies`: id and flow of each. A batch has one flow; flows are in the order of first occurrence."""
    by_flow: dict[str, list[str]] = {}
    for strategy_id, flow in strategies:
        by_flow.setdefault(flow, []).append(strategy_id)
    return [
        Batch(flow, tuple(ids[start : start + size]))
        for flow, ids in by_flow.items()
        for start in range(0, len(ids), size)
    ]


def run_id_of(request_id: str, batch: int) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{request_id}/{batch}"))


def run_ids_of(request_id: str, batches: int) -> list[str]:
    return [run_id_of(request_id, batch) for batch in range(batches)]
