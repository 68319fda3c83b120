"""How many runs a worker executes at once. Owns what `--concurrency` counts.

A run takes a place. Runs of flows that are known to be short share one: most of the time they wait for
acknowledgements. A job is pulled only if a whole place is free, because its flow is not known before.
"""

from __future__ import annotations

from pyoco_server.worker.waiting_line import WaitingLine

# So many short runs share a place.
SHARES = 3


class Places:
    def __init__(self, count: int) -> None:
        self._free = count * SHARES  # below 0 if a run was not as short as expected
        self._waiting = WaitingLine()

    async def take(self) -> Place:
        """Wait for a whole place."""
        is_first = False
        while self._free < SHARES:
            await self._waiting.wait(is_first=is_first)
            is_first = True
        return Place(self)

    def change(self, shares: int) -> None:
        """So many more are free (below 0: fewer)."""
        self._free += shares
        self._waiting.wake(count=max(self._free, 0) // SHARES)


class Place:
    """The place of one run. It is released once; releasing it again has no effect."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._shares = 0
        self._is_released = False
        self.occupy()

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
        if not self._is_released:
            freed, self._shares = self._shares - shares, shares
            self._places.change(freed)
