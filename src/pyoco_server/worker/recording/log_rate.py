"""The rate limit for one run's printing: a token bucket, so that a burst is free."""

from __future__ import annotations

import time
from collections.abc import Callable

# The size of the bucket: so many seconds of printing at the full rate.
BURST_SEC = 10.0
# When the bucket is empty, no line is stored until it has refilled by this much: gaps are few.
PAUSE_SEC = 1.0


class Rate:
    """A token bucket, asked for every line: while tokens are left it costs a subtraction."""

    def __init__(self, per_sec: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_sec = per_sec
        self._most = per_sec * BURST_SEC
        self._left = self._most
        self._needs = 1.0
        self._clock = clock
        self._counted_at = clock()

    def take(self) -> bool:
        """Whether one more is allowed now."""
        if self._left < self._needs:
            now = self._clock()
            earned = (now - self._counted_at) * self._per_sec
            self._left, self._counted_at = min(self._most, self._left + earned), now
            if self._left < self._needs:
                self._needs = max(1.0, self._per_sec * PAUSE_SEC)
                return False
            self._needs = 1.0
        self._left -= 1
        return True
