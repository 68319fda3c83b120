"""Runs that received commands of this gateway: an LRU cache of them, and a lock for each.

A command on a cached run needs no read. A cached run may be old. That is safe: a commit is accepted only at
the position that it was decided on, and a refusal is confirmed by the leader.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyoco_server.store.runs.stored_run import StoredRun

HELD_MAX = 4_096
HELD_BYTES_MAX = 64 * 2**20
TURN_WAIT_SEC = 4.0


class RunCache:
    def __init__(self, *, bytes_max: int = HELD_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[str, StoredRun] = OrderedDict()
        self._bytes = 0

    def get(self, run_id: str) -> StoredRun | None:
        stored = self._held.get(run_id)
        if stored is not None:
            self._held.move_to_end(run_id)
        return stored

    def put(self, stored: StoredRun) -> None:
        """Only a run with all its tasks, because decisions are made on it, and only if it is newer."""
        run_id = stored.run.run_id
        known = self._held.get(run_id)
        if stored.run.tasks_dropped or (known is not None and known.log_seq > stored.log_seq):
            return
        self.drop(run_id)
        if stored.run.gone:
            return
        self._held[run_id] = stored
        self._bytes += _size(stored)
        while len(self._held) > HELD_MAX or self._bytes > self._bytes_max:
            self._bytes -= _size(self._held.popitem(last=False)[1])

    def drop(self, run_id: str) -> None:
        known = self._held.pop(run_id, None)
        if known is not None:
            self._bytes -= _size(known)

    def forget(self) -> None:
        """The broker was away and may have another log now."""
        self._held.clear()
        self._bytes = 0

    def log_seq(self, run_id: str) -> int:
        """A sequence of the run that is known to be in the log; 0 if none is."""
        known = self._held.get(run_id)
        return known.log_seq if known is not None else 0

    def __len__(self) -> int:
        return len(self._held)


class RunLocks:
    """Commands on one run are applied one after the other, so that they do not collide in the log.

    Without these locks concurrent commands append at the same sequence: one wins and the others decide again.
    The locks only save work. After TURN_WAIT_SEC a command goes ahead without its lock, which is safe because
    the log accepts one commit at a time.
    """

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


def _size(stored: StoredRun) -> int:
    return stored.run.bytes_full


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
