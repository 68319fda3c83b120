"""Limits how many operations of one kind are in progress: for each caller, and for all callers together.

Counts in this process only. Above a limit a request is refused at once; nothing is queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyoco_server.errors import Limited

RETRY_AFTER_SEC = 1.0


class Concurrency:
    """`what` (a plural) and the names of the settings are parts of the error message."""

    def __init__(
        self,
        what: str,
        *,
        per_caller: int,
        per_caller_setting: str,
        total: int,
        total_setting: str,
        retry_after_sec: float = RETRY_AFTER_SEC,
    ) -> None:
        self._what = what
        self._per_caller, self._per_caller_setting = per_caller, per_caller_setting
        self._total, self._total_setting = total, total_setting
        self._retry_after_sec = retry_after_sec
        self._by_caller: Counter[str] = Counter()
        self.under_way = 0
        self.refused = 0

    def enter(self, caller: str) -> Callable[[], None]:
        """Returns a function to call at the end of the operation, also twice. Raises Limited."""
        if self._by_caller[caller] >= self._per_caller:
            self._refuse(f"You have {self._per_caller} {self._what} open", self._per_caller_setting)
        if self.under_way >= self._total:
            self._refuse(f"This gateway has {self._total} {self._what} open", self._total_setting)
        self._by_caller[caller] += 1
        self.under_way += 1
        is_open = True

        def leave() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                self._release(caller)

        return leave

    @contextmanager
    def entered(self, caller: str) -> Iterator[None]:
        leave = self.enter(caller)
        try:
            yield
        finally:
            leave()

    def _release(self, caller: str) -> None:
        self.under_way -= 1
        self._by_caller[caller] -= 1
        if not self._by_caller[caller]:
            del self._by_caller[caller]

    def _refuse(self, standing: str, setting: str) -> None:
        self.refused += 1
        raise Limited(
            f"{standing}, as many as {setting} allows. End one, or try again later.",
            retry_after_sec=self._retry_after_sec,
        )
