"""Workers as they change, for whoever looks at them: pushed by what they write, and by their silence.

A worker that is gone cannot say so. So each entry that says it lives has its moment, and when nothing was
written until then, it is told as lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from pyoco_server.errors import Unavailable
from pyoco_server.operations import workers
from pyoco_server.operations.callers import Caller
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

TELL_INTERVAL_SEC = 0.25
# A moment later than the silence that makes a worker lost, so that it reads as lost then.
SILENCE_MARGIN_SEC = 0.1

Ring = Callable[[], None]


class WorkerNews:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._readers: set[WorkersReader] = set()

    async def start(self) -> None:
        """Hear of every entry that is written from now on, for as long as the connection lives."""
        await self._store.registry.follow(self._on_entry)

    def enter(self, caller: Caller) -> WorkersReader:
        reader = WorkersReader(self._store, self._read_model, caller)
        self._readers.add(reader)
        return reader

    def leave(self, reader: WorkersReader) -> None:
        self._readers.discard(reader)
        reader.close()

    def __len__(self) -> int:
        return len(self._readers)

    def _on_entry(self, worker_id: str) -> None:
        for reader in tuple(self._readers):
            reader.wake()


class WorkersReader:
    """Reads the registry when something was written, and tells what looks otherwise than before."""

    def __init__(self, store: Store, read_model: ReadModel, caller: Caller) -> None:
        self._store = store
        self._read_model = read_model
        self._caller = caller
        self._told: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, dict[str, Any]] = {}
        self._has_looked = False
        self._owes_opening = False
        self._ring: Ring = _nobody
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self.is_over = False

    def attach(self, ring: Ring) -> None:
        self._ring = ring
        self._read()

    def close(self) -> None:
        self.is_over = True
        self._ring = _nobody
        for pending in (self._timer, self._reading):
            if pending is not None:
                pending.cancel()

    def wake(self) -> None:
        self._read_in(TELL_INTERVAL_SEC)

    def take(self) -> list[dict[str, Any]] | None:
        """All of them first, also where there are none; then those that look otherwise."""
        if not (self._waiting or self._owes_opening):
            return None
        self._owes_opening = False
        waiting, self._waiting = list(self._waiting.values()), {}
        return waiting

    def _read_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._read)

    def _read(self) -> None:
        self._timer = None
        if self._reading is None and not self.is_over:
            self._reading = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        try:
            wanted = workers.Wanted(gone=True, hidden=True)
            found = await workers.list_workers(
                self._store, self._read_model, wanted, limit=workers.TOLD_MAX, caller=self._caller
            )
            # That there are none is news too, to whoever has just come.
            self._owes_opening, self._has_looked = not self._has_looked, True
        except Unavailable:
            found = []
        self._reading = None
        for entry in found:
            if self._told.get(entry["worker_id"]) != entry:
                self._told[entry["worker_id"]] = entry
                self._waiting[entry["worker_id"]] = entry
        self._read_in(self._next_silence_sec(found))
        if self._waiting or self._owes_opening:
            self._ring()

    def _next_silence_sec(self, entries: list[dict[str, Any]]) -> float:
        """When the first of those that live would be lost, were nothing heard of it any more."""
        timeout_sec, now = self._store.config.worker_disconnect_timeout_sec, time.time()
        seen = [entry["last_seen_at"] for entry in entries if entry["state"] in workers.ACTIVE]
        moments = [at + timeout_sec - now for at in seen if isinstance(at, int | float)]
        return max(TELL_INTERVAL_SEC, min([timeout_sec, *moments]) + SILENCE_MARGIN_SEC)


def _nobody() -> None:
    pass
