"""Callers that wait for something that is given out in the order of their arrival."""

from __future__ import annotations

import asyncio
from collections import deque


class WaitingLine:
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, *, is_first: bool = False) -> None:
        """Until `wake`. `is_first`: the caller was woken in vain and keeps its position."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if is_first:
            self._waiting.appendleft(waiter)
        else:
            self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.wake()  # it does not take what it was woken for
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def wake(self, count: int | None = 1) -> None:
        """The first ones; None: all."""
        if not self._waiting:
            return
        for waiter in list(self._waiting)[:count]:
            self._waiting.remove(waiter)
            if not waiter.done():
                waiter.set_result(None)
