"""Removes the registry entries of workers that stopped or were lost long ago.

A live worker writes its entry every few seconds, so the entries are ordered by the time of the last write.
The oldest one determines when to look again; until then nothing is read. An entry is removed at the revision
that was read, so a worker that comes back at the same moment keeps its entry.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyoco_server.clock import elapsed
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.operations.fleet.workers import is_gone
from pyoco_server.store.fleet.registry import WrittenEntry
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# The rest is removed in the next round, a second later.
ENTRIES_AT_ONCE = 100


class GoneWorkers:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept_sec = store.config.worker_history_sec
        self._look_at = float("-inf")

    async def look(self) -> int:
        """Returns how many entries were removed."""
        if not self._kept_sec or elapsed() < self._look_at:
            return 0
        now = await self._store.clock.now()
        oldest = await self._store.registry.oldest(ENTRIES_AT_ONCE)
        due = [one for one in oldest if one.at + self._kept_sec <= now]
        removed = sum([await self._remove(one, now) for one in due])
        self._look_at = elapsed() + self._next_in_sec(oldest, due, removed, now)
        return removed

    def _next_in_sec(
        self, oldest: Sequence[WrittenEntry], due: list[WrittenEntry], removed: int, now: float
    ) -> float:
        if len(due) == ENTRIES_AT_ONCE and removed:
            return 0.0
        later = [one.at + self._kept_sec - now for one in oldest[len(due) :][:1]]
        # An entry was kept, because the worker's clock is ahead or it came back. It is checked again then.
        again = [self._store.config.worker_disconnect_timeout_sec] if removed < len(due) else []
        return min([self._kept_sec, *later, *again])

    async def _remove(self, written: WrittenEntry, now: float) -> bool:
        if written.record is None:  # the mark of a deletion, which no list shows
            await self._store.registry.clear(written.worker_id, revision=written.revision)
            return True
        if not is_gone(self._store, written.record, now):
            return False
        try:
            await self._store.registry.remove(written.worker_id, revision=written.revision)
        except WrongSequence:
            return False
        fields = {"worker_id": written.worker_id, "silent_sec": round(now - written.at)}
        log.info("the entry of a worker that is gone was removed", extra=fields)
        return True
