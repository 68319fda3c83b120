"""What has failed and when to retry it: with a growing interval, up to a limit."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

LONGEST_SEC = 600.0


@dataclass(slots=True)
class _Failure:
    times: int
    retry_at: float
    reason: str


class RetrySchedule:
    def __init__(self, first_sec: float) -> None:
        self._first_sec = first_sec
        self._failures: dict[str, _Failure] = {}

    def note_failure(self, what: str, reason: str) -> None:
        before = self._failures.get(what)
        times = before.times + 1 if before else 1
        # The next sync comes after the first interval: after the first failure one is skipped.
        pause_sec = min(self._first_sec * 2.0 ** min(times, 16), max(LONGEST_SEC, self._first_sec))
        self._failures[what] = _Failure(times, time.monotonic() + pause_sec, reason)

    def must_wait(self, what: str) -> bool:
        failure = self._failures.get(what)
        return failure is not None and time.monotonic() < failure.retry_at

    def reasons(self, *what: str) -> str | None:
        """Why these have failed; None if they have not."""
        return "; ".join(self._failures[one].reason for one in what if one in self._failures) or None

    def note_success(self, what: str) -> None:
        self._failures.pop(what, None)

    def forget_others(self, known: Collection[str]) -> None:
        self._failures = {what: failure for what, failure in self._failures.items() if what in known}
