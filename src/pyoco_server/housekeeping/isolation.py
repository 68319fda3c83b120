"""Do something for each of several runs: one that fails keeps none of the others from its turn.

A run that failed is left alone for a while, longer after each failure, so that it neither fills the log nor
takes the place of others. Trouble with the broker is not a run's fault: after a few in a row the rest waits
for the next round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from pyoco_server.errors import Unavailable
from pyoco_server.supervision import Backoff, count_failure

log = logging.getLogger(__name__)

T = TypeVar("T")

UNAVAILABLE_IN_A_ROW_MAX = 3
REMEMBERED_MAX = 10_000
PATIENCE = Backoff(first_sec=1.0, longest_sec=60.0)


class _Failed(NamedTuple):
    times: int
    again_at: float


class Isolation:
    def __init__(self, chore: str) -> None:
        self._chore = chore
        self._failed: dict[str, _Failed] = {}

    async def each(
        self, items: Iterable[T], act: Callable[[T], Awaitable[bool]], *, name: Callable[[T], str]
    ) -> int:
        """How many of them `act` said yes for. Raises Unavailable when the broker is the trouble."""
        done = away = 0
        for item in items:
            if self._is_left_alone(name(item)):
                continue
            try:
                done += await act(item)
            except Unavailable:
                away += 1
                if away >= UNAVAILABLE_IN_A_ROW_MAX:
                    raise
                continue
            except Exception as error:  # a defect of one run; the others must get their turn
                self._note(name(item), error)
            else:
                self._failed.pop(name(item), None)
            away = 0
        return done

    def _is_left_alone(self, item: str) -> bool:
        failed = self._failed.get(item)
        return failed is not None and failed.again_at > asyncio.get_running_loop().time()

    def _note(self, item: str, error: Exception) -> None:
        count_failure(f"housekeeping.{self._chore}")
        before = self._failed.pop(item, _Failed(0, 0.0))
        times = before.times + 1
        if len(self._failed) >= REMEMBERED_MAX:
            self._failed.pop(next(iter(self._failed)))
        self._failed[item] = _Failed(times, asyncio.get_running_loop().time() + PATIENCE.after(times))
        fields = {"chore": self._chore, "run_id": item, "failures": times}
        log.error("housekeeping failed for one run", extra=fields, exc_info=error)
