"""The right to execute a run: as many as there are slots, given back as soon as a run's code has returned."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Permit:
    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._has = False

    async def __aenter__(self) -> Permit:
        await self._turns.acquire()
        self._has = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """The next attempt may begin; the rest of this run needs no slot. Callable twice."""
        if self._has:
            self._has = False
            self._turns.release()
