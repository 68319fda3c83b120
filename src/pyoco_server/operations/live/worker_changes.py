"""Workers as they change, for subscribers: sent when a worker writes, and when it stops writing.

The registry is read when an entry was written or removed, and otherwise not: a worker that is gone cannot
say so, so a timer stands at the moment at which the first of the living would be lost, were it silent.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from pyoco_server import clock
from pyoco_server.operations.fleet import workers
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.live.notify import Notify, noop
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop

TELL_INTERVAL_SEC = 0.25
# A moment later than the silence that makes a worker lost, so that it reads as lost then.
SILENCE_MARGIN_SEC = 0.1
# A broker that did not answer is asked again. One that is away refuses at once, which costs nothing.
AFTER_TROUBLE = Backoff(first_sec=TELL_INTERVAL_SEC, longest_sec=1.0)

Entry = dict[str, Any]


class WorkerChange(NamedTuple):
    """Workers that look otherwise than before, or `all` there are; names of those that are kept no more."""

    workers: list[Entry]
    gone: list[str]
    all: bool


class WorkerChanges:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._readers: set[WorkerChangesReader] = set()

    async def start(self) -> None:
        """Hear of every entry that is written from now on, for as long as the connection lives."""
        await self._store.registry.follow(lambda _worker_id: self._wake())
        self._store.on_reconnect(self._wake)

    def subscribe(self, caller: Caller) -> WorkerChangesReader:
        reader = WorkerChangesReader(self._store, self._read_model, caller)
        self._readers.add(reader)
        return reader

    def unsubscribe(self, reader: WorkerChangesReader) -> None:
        self._readers.discard(reader)
        reader.close()

    def __len__(self) -> int:
        return len(self._readers)

    def _wake(self) -> None:
        for reader in tuple(self._readers):
            reader.wake()


class WorkerChangesReader:
    """Reads the registry when something was written, and tells what looks otherwise than before."""

    def __init__(self, store: Store, read_model: ReadModel, caller: Caller) -> None:
        self._store = store
        self._read_model = read_model
        self._caller = caller
        self._told: dict[str, Entry] = {}
        self._waiting: dict[str, Entry] = {}
        self._gone: dict[str, None] = {}
        self._has_news = False
        self._has_told = False
        self._ring: Notify = noop
        self._timer: asyncio.TimerHandle | None = None
        self._reading = Loop("watched workers", self._look, backoff=AFTER_TROUBLE)
        self.is_over = False

    def attach(self, ring: Notify) -> None:
        self._ring = ring
        self._reading.start()
        self._reading.wake()

    def close(self) -> None:
        self.is_over = True
        self._ring = noop
        if self._timer is not None:
            self._timer.cancel()
        self._reading.stop_at_once()

    def wake(self) -> None:
        self._read_in(TELL_INTERVAL_SEC)

    def take(self) -> WorkerChange | None:
        """All of them first, also where there are none; then those that look otherwise, and those gone."""
        if not self._has_news:
            return None
        told = WorkerChange(list(self._waiting.values()), list(self._gone), not self._has_told)
        self._waiting, self._gone = {}, {}
        self._has_news, self._has_told = False, True
        return told

    def _read_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._read)

    def _read(self) -> None:
        """What is written while we read may have come too late for it: then the loop reads once more."""
        self._timer = None
        self._reading.wake()

    async def _look(self) -> None:
        wanted = workers.WorkerFilter(gone=True, hidden=True)
        found = await workers.list_workers(
            self._store, self._read_model, wanted, limit=workers.TOLD_MAX, caller=self._caller
        )
        self._compare(found)
        if (silence_sec := self._next_silence_sec(found)) is not None:
            self._read_in(silence_sec)
        if self._has_news:
            self._ring()
        await self._reading.pause_until_stopped(TELL_INTERVAL_SEC)

    def _compare(self, found: list[Entry]) -> None:
        now = {entry["worker_id"]: entry for entry in found}
        changed = {name: entry for name, entry in now.items() if self._told.get(name) != entry}
        gone = dict.fromkeys(name for name in self._told if name not in now)
        self._waiting = {name: one for name, one in (self._waiting | changed).items() if name not in gone}
        self._gone = {name: None for name in self._gone | gone if name not in now}
        self._has_news |= bool(changed or gone or not self._has_told)
        self._told = now

    def _next_silence_sec(self, entries: list[Entry]) -> float | None:
        """When the first of those that live would be lost, were nothing heard of it any more."""
        timeout_sec, now = self._store.config.worker_disconnect_timeout_sec, clock.now()
        seen = [entry["last_seen_at"] for entry in entries if entry["state"] in workers.ACTIVE]
        moments = [at + timeout_sec - now for at in seen if isinstance(at, int | float)]
        return max(TELL_INTERVAL_SEC, min(moments) + SILENCE_MARGIN_SEC) if moments else None
