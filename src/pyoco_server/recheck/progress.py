"""How a request stands: summed up from what became of its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from pyoco_server.recheck.records import BatchOutcome, Request
from pyoco_server.recheck.thresholds import StrategyHealth


class RequestStatus(StrEnum):
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What is added up from batch to batch."""

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
    """Failed when half or more of the strategies failed. Nothing to do is done at once."""
    if request.dry_run or request.batches == 0:
        return RequestStatus.SUCCESS
    if counted.batches < request.batches:
        return RequestStatus.RUNNING
    return RequestStatus.FAILED if counted.failed * 2 >= request.strategies else RequestStatus.SUCCESS
