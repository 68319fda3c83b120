"""Do something for each of several runs: a run that fails does not stop the others.

A run that failed is skipped for a while, longer after each failure, so that it neither fills the log nor
delays other runs. `Unavailable` is not the fault of a run: after a few in a row the rest waits for the next
round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from pyoco_server.errors import Unavailable
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.supervision import Backoff, capture_error, count_failure

log = logging.getLogger(__name__)

T = TypeVar("T")

UNAVAILABLE_IN_A_ROW_MAX = 3
REMEMBERED_MAX = 10_000
BACKOFF = Backoff(first_sec=1.0, longest_sec=60.0)


class _HasRunId(Protocol):
    @property
    def run_id(self) -> str: ...


R = TypeVar("R", bound=_HasRunId)


class _Failed(NamedTuple):
    times: int
    retry_at: float


class Isolation:
    def __init__(self, chore: str) -> None:
        self._chore = chore
        self._failed: dict[str, _Failed] = {}

    async def each_run(self, runs: Iterable[R], act: Callable[[R], Awaitable[bool]]) -> int:
        return await self.each(runs, act, key=lambda run: run.run_id)

    async def each(
        self, items: Iterable[T], act: Callable[[T], Awaitable[int]], *, key: Callable[[T], str]
    ) -> int:
        """The sum of what `act` returned, 1 for True. Raises Unavailable after several in a row."""
        done = unavailable = 0
        for item in items:
            name = key(item)
            before = self._failed.get(name, _Failed(0, float("-inf")))
            if before.retry_at > asyncio.get_running_loop().time():
                continue
            with capture_error() as step:
                done += await act(item)
            if isinstance(step.error, Unavailable):
                unavailable += 1
                if unavailable >= UNAVAILABLE_IN_A_ROW_MAX:
                    raise step.error
                continue
            self._failed.pop(name, None)
            if step.error is not None:
                self._note_failure(name, before.times + 1, step.error)
            unavailable = 0
        return done

    def _note_failure(self, name: str, times: int, error: Exception) -> None:
        count_failure(f"housekeeping.{self._chore}")
        fields = {"chore": self._chore, "run_id": name, "failures": times}
        log.error("housekeeping failed for one run", exc_info=error, extra=fields)
        failed = _Failed(times, asyncio.get_running_loop().time() + BACKOFF.after(times))
        put_bounded(self._failed, name, failed, REMEMBERED_MAX)


async def sum_of_all(counts: Iterable[Awaitable[int]]) -> int:
    """Execute them concurrently. All of them end before the first error is raised."""
    results = await asyncio.gather(*counts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return sum(result for result in results if isinstance(result, int))
