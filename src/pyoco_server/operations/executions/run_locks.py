"""Commands of one gateway on one run are applied one after the other, so that they do not collide in the log.

Without these locks concurrent commands append at the same sequence: one wins and the others decide again. The
locks only save work. After TURN_WAIT_SEC a command goes ahead without its lock, which is safe because the log
accepts one commit at a time.
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
