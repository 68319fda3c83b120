"""Workers that stopped or were lost long ago: their entries leave the registry.

Whoever lives writes its entry every few seconds, so the entries stand in the order of their silence. The
first of them says when there is something to do; until then nothing is read. An entry is removed as it was
seen: of a worker that comes back in that moment nothing is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyoco_server.clock import elapsed
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.operations.fleet.workers import is_gone
from pyoco_server.store.fleet.registry import Written
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# What is left is removed in the next round, a second later.
ENTRIES_AT_ONCE = 100


class GoneWorkers:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept_sec = store.config.worker_history_sec
        self._look_at = float("-inf")

    async def look(self) -> int:
        """How many were removed."""
        if not self._kept_sec or elapsed() < self._look_at:
            return 0
        now = await self._store.clock.now()
        oldest = await self._store.registry.oldest(ENTRIES_AT_ONCE)
        due = [one for one in oldest if one.at + self._kept_sec <= now]
        removed = sum([await self._remove(one, now) for one in due])
        self._look_at = elapsed() + self._next_in_sec(oldest, due, removed, now)
        return removed

    def _next_in_sec(self, oldest: Sequence[Written], due: list[Written], removed: int, now: float) -> float:
        if len(due) == ENTRIES_AT_ONCE and removed:
            return 0.0
        later = [one.at + self._kept_sec - now for one in oldest[len(due) :][:1]]
        # Of one whose clock is ahead, or that came back in this moment, more is known then.
        again = [self._store.config.worker_disconnect_timeout_sec] if removed < len(due) else []
        return min([self._kept_sec, *later, *again])

    async def _remove(self, written: Written, now: float) -> bool:
        if written.record is None:  # what a deletion has left: nobody was ever shown it
            await self._store.registry.clear(written.worker_id, revision=written.revision)
            return True
        if not is_gone(self._store, written.record, now):
            return False
        try:
            await self._store.registry.remove(written.worker_id, revision=written.revision)
        except WrongSequence:
            return False
        fields = {"worker_id": written.worker_id, "silent_sec": round(now - written.at)}
        log.info("a worker long gone is kept no more", extra=fields)
        return True
