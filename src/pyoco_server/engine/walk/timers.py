"""What is due at which instant of the monotonic clock. Owns the order; executes nothing."""

import heapq
import itertools
import math
import time
from dataclasses import dataclass

from pyoco_server.engine.tasks.attempt import TaskAttempt


@dataclass(frozen=True, slots=True)
class Expiry:
    """The attempt's time is up, if it is still running."""

    attempt: TaskAttempt


@dataclass(frozen=True, slots=True)
class RetryTimer:
    """The attempt may start now."""

    attempt: TaskAttempt


class Timers:
    """Entries are never removed early: an entry without effect is ignored when it is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Expiry | RetryTimer]] = []
        self._numbers = itertools.count()  # orders equal instants

    def add(self, at: float, what: Expiry | RetryTimer) -> None:
        heapq.heappush(self._heap, (at, next(self._numbers), what))

    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def take_due(self) -> Expiry | RetryTimer | None:
        is_due = bool(self._heap) and self._heap[0][0] <= time.monotonic()
        return heapq.heappop(self._heap)[2] if is_due else None
