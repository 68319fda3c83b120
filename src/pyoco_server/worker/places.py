"""How many runs a worker executes at once. Owns what `--concurrency` counts.

A run takes a place. Runs of flows that are known to be short share one: most of the time they wait for
acknowledgements. A job is pulled only if a whole place is free, because its flow is not known before.
"""

from __future__ import annotations

import asyncio
from collections import deque

# So many short runs share a place.
SHARES = 3


class Places:
    def __init__(self, count: int) -> None:
        self._free = count * SHARES  # below 0 if a run was not as short as expected
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> Place:
        """Wait for a whole place, in the order of the calls."""
        if self._waiting or self._free < SHARES:
            await self._wait()
        else:
            self._free -= SHARES
        return Place(self)

    def take_now(self) -> Place:
        """A whole place, also if none is free."""
        self._free -= SHARES
        return Place(self)

    def change(self, shares: int) -> None:
        """So many more are free (below 0: fewer). A caller that waits gets its place here, not when it goes
        on: so none is woken for a place that another one takes first."""
        self._free += shares
        while self._free >= SHARES and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # it may have been cancelled
                self._free -= SHARES
                waiter.set_result(None)

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.change(SHARES)  # it had got a place already
            raise


class Place:
    """The place of one run: a whole one at first. It is released once; releasing it again has no effect."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._shares = SHARES
        self._is_released = False

    def share(self) -> None:
        """The run is short."""
        self._resize(1)

    def occupy(self) -> None:
        """The run needs a place of its own."""
        self._resize(SHARES)

    def release(self) -> None:
        self._resize(0)
        self._is_released = True

    def _resize(self, shares: int) -> None:
        if not self._is_released and shares != self._shares:
            freed, self._shares = self._shares - shares, shares
            self._places.change(freed)
