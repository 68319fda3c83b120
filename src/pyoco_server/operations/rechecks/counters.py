"""What this gateway has seen of rechecks since it came up: requests, how long they took, calls to Airflow."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

BOUNDS_MS = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 5_000.0, 10_000.0)


class Latency:
    """How many up to each bound, and beyond the last; and all of it together."""

    __slots__ = ("counts", "total_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.total_ms = 0.0

    def add(self, milliseconds: float) -> None:
        self.counts[bisect_left(BOUNDS_MS, milliseconds)] += 1
        self.total_ms += milliseconds


class RecheckCounters:
    def __init__(self) -> None:
        # endpoint and outcome: both from closed sets
        self.requests: Counter[tuple[str, str]] = Counter()
        self.latency: dict[str, Latency] = {}
        self.idempotency_conflicts = 0
        self.airflow: Counter[tuple[str, str]] = Counter()

    def request(self, endpoint: str, outcome: str, milliseconds: float) -> None:
        self.requests[endpoint, outcome] += 1
        self.latency.setdefault(endpoint, Latency()).add(milliseconds)
        self.idempotency_conflicts += outcome == "IDEMPOTENCY_CONFLICT"
