"""How long to wait after the nth failure in a row: exponential, capped, with jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass

EXPONENT_MAX = 32


@dataclass(frozen=True, slots=True)
class Backoff:
    first_sec: float = 0.1
    longest_sec: float = 5.0
    # Without jitter, processes that failed together would all retry in the same moment.
    jitter: float = 0.25

    def after(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row; 0 for none."""
        if failures <= 0:
            return 0.0
        exponent = min(failures - 1, EXPONENT_MAX)
        wait_sec = min(self.first_sec * 2.0**exponent, self.longest_sec)
        return wait_sec * random.uniform(1.0 - self.jitter, 1.0)
