"""How long has each lease stood still? Pure: what was read comes in, seconds come out.

Only the observer's own monotonic clock counts, and only time in which its own writes went through: while
the broker is away nobody's lease can move, and that is nobody's fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class _Seen(NamedTuple):
    revision: int
    still_sec: float


class Stillness:
    def __init__(self, *, step_sec_max: float) -> None:
        # A laptop that slept, or a loop that hung, must not age everybody by an hour at once.
        self._step_sec_max = step_sec_max
        self._seen: dict[str, _Seen] = {}
        self._last_good: float | None = None

    def observe(self, revisions: Mapping[str, int], now: float, *, own_write_went_through: bool) -> None:
        """`revisions`: what was just read, 0 for a lease that is not there. `now`: monotonic seconds."""
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
