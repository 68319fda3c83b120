"""Workers as they change, for subscribers: sent when a worker writes, and when it stops writing.

The registry is read only when an entry was written or removed. A worker that has died writes nothing, so a
timer is set to the instant at which the first active worker would count as lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.operations.fleet import workers
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.live.notify import Changes, Notify, noop
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop

NOTIFY_INTERVAL_SEC = 0.25
# The registry is read a moment after that instant, so that the worker counts as lost by then.
SILENCE_MARGIN_SEC = 0.1
# After a failed read. A broker that is away refuses at once, which costs nothing.
AFTER_TROUBLE = Backoff(first_sec=NOTIFY_INTERVAL_SEC, longest_sec=1.0)

Entry = dict[str, object]


class WorkerChange(NamedTuple):
    """Workers that have changed, or `all` of them; names of those that were removed from the registry."""

    workers: list[Entry]
    gone: list[str]
    all: bool


class WorkerChanges(Changes["WorkerChangesReader"]):
    def __init__(
        self, store: Store, read_model: ReadModel, on_written: Callable[[bytes], None] = lambda _: None
    ) -> None:
        """`on_written` gets every entry of the registry that is written."""
        super().__init__()
        self._on_written = on_written
        self._store = store
        self._read_model = read_model

    async def start(self) -> None:
        """Receive every entry that is written from now on, also after a reconnect."""
        await self._store.registry.follow(self._receive)
        self._store.on_reconnect(self._wake)

    def subscribe(self, caller: Caller) -> WorkerChangesReader:
        return self._add(WorkerChangesReader(self._store, self._read_model, caller))

    def _receive(self, entry: bytes) -> None:
        self._on_written(entry)
        self._wake()

    def _wake(self) -> None:
        for reader in self._each():
            reader.wake()


class WorkerChangesReader:
    """Reads the registry after a write, and compares it with what was sent."""

    def __init__(self, store: Store, read_model: ReadModel, caller: Caller) -> None:
        self._store = store
        self._read_model = read_model
        self._caller = caller
        self._seen: dict[str, Entry] = {}
        self._waiting: dict[str, Entry] = {}
        self._gone: dict[str, None] = {}
        self._has_changed = False
        self._has_sent = False
        self._notify: Notify = noop
        self._timer: asyncio.TimerHandle | None = None
        self._reading = Loop("watched workers", self._look, backoff=AFTER_TROUBLE)
        self.is_over = False

    def attach(self, notify: Notify) -> None:
        self._notify = notify
        self._reading.start()
        self._reading.wake()

    def close(self) -> None:
        self.is_over = True
        self._notify = noop
        if self._timer is not None:
            self._timer.cancel()
        self._reading.stop_at_once()

    def wake(self) -> None:
        self._read_in(NOTIFY_INTERVAL_SEC)

    def take(self) -> WorkerChange | None:
        """First all workers, even if there are none; then those that have changed or were removed."""
        if not self._has_changed:
            return None
        change = WorkerChange(list(self._waiting.values()), list(self._gone), not self._has_sent)
        self._waiting, self._gone = {}, {}
        self._has_changed, self._has_sent = False, True
        return change

    def _read_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._read)

    def _read(self) -> None:
        """A write during a read may be missing from it: the loop then reads once more."""
        self._timer = None
        self._reading.wake()

    async def _look(self) -> None:
        wanted = workers.WorkerFilter(gone=True, hidden=True)
        found = await workers.list_workers(
            self._store, self._read_model, wanted, limit=workers.LIVE_LIST_MAX, caller=self._caller
        )
        self._compare(found)
        if (silence_sec := self._next_silence_sec(found)) is not None:
            self._read_in(silence_sec)
        if self._has_changed:
            self._notify()
        await self._reading.pause_until_stopped(NOTIFY_INTERVAL_SEC)

    def _compare(self, found: list[Entry]) -> None:
        now = {str(entry["worker_id"]): entry for entry in found}
        changed = {name: entry for name, entry in now.items() if self._seen.get(name) != entry}
        gone = dict.fromkeys(name for name in self._seen if name not in now)
        self._waiting = {name: one for name, one in (self._waiting | changed).items() if name not in gone}
        self._gone = {name: None for name in self._gone | gone if name not in now}
        self._has_changed |= bool(changed or gone or not self._has_sent)
        self._seen = now

    def _next_silence_sec(self, entries: list[Entry]) -> float | None:
        """The time until the first active worker counts as lost if it writes nothing more."""
        timeout_sec, now = self._store.config.worker_disconnect_timeout_sec, clock.now()
        seen = [entry["last_seen_at"] for entry in entries if entry["state"] in workers.ACTIVE]
        moments = [at + timeout_sec - now for at in seen if isinstance(at, int | float)]
        return max(NOTIFY_INTERVAL_SEC, min(moments) + SILENCE_MARGIN_SEC) if moments else None
