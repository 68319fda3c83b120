"""How much of one kind may be under way at once: for each caller, and for all of them together.

Counts in this process alone. What is over a limit is refused at once; nothing queues here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyoco_server.errors import Limited

RETRY_AFTER_SEC = 1.0


class Concurrency:
    """`what`: in the plural, for the sentence of a refusal. The settings are named there, too."""

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
        """Raises Limited; else gives what must be called when it is over. A second call does nothing."""
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
