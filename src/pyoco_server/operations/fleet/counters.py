"""Counters of this gateway since its start: delays, durations, events, dead letters.

Every gateway receives every commit and counts all of them, so the figures of several gateways must not be
added. A restart begins at zero. Commits that are read again to rebuild an index are not counted. Instants are
those of the process that wrote the event; a delay between two machines is as exact as their clocks, and never
negative.

`commit` is called for every commit of the log, so it does only a few additions, without locks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from pyoco_server import clock
from pyoco_server.lifecycle.events import Event, TaskFailed, TaskSucceeded
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus

# From a millisecond to an hour. Each bound is one line in the output for every histogram.
BOUNDS_SEC = (0.001, 0.0025, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 600.0, 3600.0)
# Any publisher can choose a reason. Above this many different ones, all others are counted as one.
REASONS_MAX = 32
OTHER = "other"


class Histogram:
    """How many values are up to each bound and above the last one, and the sum of all values."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = BOUNDS_SEC) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        value = max(value, 0.0)
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """The buckets as Prometheus has them: by upper bound, each with all that are below it."""
        bounds = (*map(str, self._bounds), "+Inf")
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


class Counters:
    def __init__(self) -> None:
        self.since = clock.now()
        self.commits = 0
        self.events: Counter[type[Event]] = Counter()
        self.start_delay = Histogram()
        self.cancel_delay = Histogram()
        self.run_durations = {status: Histogram() for status in RunStatus if status.is_terminal}
        self.tasks_succeeded = Histogram()
        self.tasks_failed = Histogram()
        self.letters: Counter[str] = Counter()

    def commit(self, before: Run | None, after: Run, events: Sequence[Event]) -> None:
        self.commits += 1
        executed = after.fence > 0  # otherwise its results were carried over from another run
        for event in events:
            self.events[type(event)] += 1
            if not executed:
                continue
            if isinstance(event, TaskSucceeded):
                self.tasks_succeeded.add(event.at - event.started_at)
            elif isinstance(event, TaskFailed):
                self.tasks_failed.add(event.at - event.started_at)
        if after.started_at is not None and (before is None or before.started_at is None):
            self.start_delay.add(after.started_at - after.submitted_at)
        if after.ended is not None and (before is None or before.ended is None) and not after.gone:
            self._ended(after, after.ended)

    def letter(self, reason: str) -> None:
        known = reason in self.letters or len(self.letters) < REASONS_MAX
        self.letters[reason if known else OTHER] += 1

    def _ended(self, run: Run, status: RunStatus) -> None:
        ended_at = run.ended_at or run.updated_at
        if run.started_at is not None:
            self.run_durations[status].add(ended_at - run.started_at)
        if run.cancel is not None:
            self.cancel_delay.add(ended_at - run.cancel.at)
