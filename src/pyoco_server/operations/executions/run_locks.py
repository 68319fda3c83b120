"""One after the other: commands of one gateway on one run need not collide in the log.

Without turns each of a crowd appends at the same place, one wins and the others decide anew. A turn is a
courtesy and no lock: whoever has waited long enough goes without, for the log takes one commit at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

TURN_WAIT_SEC = 4.0


class RunLocks:
    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def of(self, run_id: str) -> AsyncIterator[None]:
        queue = self._queues.setdefault(run_id, _Queue())
        queue.users += 1
        mine = False
        try:
            mine = await _acquire(queue.lock)
            yield
        finally:
            if mine:
                queue.lock.release()
            queue.users -= 1
            if not queue.users:
                del self._queues[run_id]

    def __len__(self) -> int:
        return len(self._queues)


class _Queue:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


async def _acquire(lock: asyncio.Lock) -> bool:
    try:
        async with asyncio.timeout(TURN_WAIT_SEC):
            return await lock.acquire()
    except TimeoutError:
        return False
