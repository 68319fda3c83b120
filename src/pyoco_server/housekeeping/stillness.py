"""Measures for how long each lease has not changed. Pure: it gets what was read and returns seconds.

Time is measured by the observer's monotonic clock, and only while its own writes succeed: while the broker is
away, no worker can renew its lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class _Seen(NamedTuple):
    revision: int
    still_sec: float


class Stillness:
    def __init__(self, *, step_sec_max: float) -> None:
        # The machine may have slept, or the loop may have hung: one step adds at most this much to any lease.
        self._step_sec_max = step_sec_max
        self._seen: dict[str, _Seen] = {}
        self._last_good: float | None = None

    def observe(self, revisions: Mapping[str, int], now: float, *, own_write_went_through: bool) -> None:
        """`revisions`: as just read, 0 for a lease that does not exist. `now`: monotonic seconds."""
        if not own_write_went_through:
            self._last_good = None
            return
        passed = 0.0 if self._last_good is None else min(now - self._last_good, self._step_sec_max)
        self._last_good = now
        self._seen = {key: self._aged(key, revision, passed) for key, revision in revisions.items()}

    def still_sec(self, key: str) -> float:
        seen = self._seen.get(key)
        return seen.still_sec if seen else 0.0

    def _aged(self, key: str, revision: int, passed: float) -> _Seen:
        before = self._seen.get(key)
        if before is None or before.revision != revision:
            return _Seen(revision, 0.0)
        return _Seen(revision, before.still_sec + passed)
