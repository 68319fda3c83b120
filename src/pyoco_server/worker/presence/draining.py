"""Whether this worker takes new runs: the operator's setting is pushed, applied, and shown in its entry.

While the entry shows draining, the worker gets no jobs: the entry is set last, and cleared first.

The setting is stored in the worker's registry entry and names the instance that it is for, so that a
restarted worker takes runs again. A push only shows that a write was tried; the value is read at the
leader. A push may arrive before the stream has the message: if the leader does not have it yet, it is asked
again. The value is also read after a reconnect, and each heartbeat of this worker brings the entry once
more.

A change is complete when the entry shows it and the puller follows it: until both are true it is retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from pyoco_server.store.fleet.registry import DRAIN, Record
from pyoco_server.store.queue.job_puller import JobPuller
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop
from pyoco_server.worker.attempt.claim import Claimant

log = logging.getLogger(__name__)

# How often, and how soon, the leader is asked again for a pushed setting. It may have refused the write.
READS_MAX = 6
READ_AGAIN = Backoff(first_sec=0.05, longest_sec=0.5)


class Draining:
    """`publish` publishes the worker's registry entry, which includes `is_draining`."""

    def __init__(self, store: Store, claimant: Claimant, publish: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._claimant = claimant
        self._publish = publish
        self._starting = 0
        self._none_starting = asyncio.Event()
        self._none_starting.set()
        self._puller: JobPuller | None = None
        self._loop = Loop("draining", self._check_setting)
        self._pushed: bool | None = None  # the last setting that was pushed and not yet read
        self._reads = 0
        self.is_draining = False

    async def start(self, puller: JobPuller) -> None:
        self._puller = puller
        await self._store.registry.follow_one(self._claimant.worker_id, self._on_written)
        self._store.on_reconnect(self._loop.wake)
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop(self._store.config.broker_timeout_sec * 2)

    def track_start(self) -> StartingDelivery:
        """Around a delivery. Call `note_started` when the entry lists its run."""
        self._starting += 1
        self._none_starting.clear()
        return StartingDelivery(self._note_started)

    def _note_started(self) -> None:
        self._starting -= 1
        if not self._starting:
            self._none_starting.set()

    def _on_written(self, record: Record) -> None:
        wanted = self._is_wanted(record)
        if not self._is_done(wanted):
            self._pushed, self._reads = wanted, 0
        if not self._is_done(wanted) or self._is_lost(record):
            self._loop.wake()

    def _is_wanted(self, record: Record) -> bool:
        """A lost entry carries no setting: the state stays as it is."""
        return self.is_draining if DRAIN not in record else record[DRAIN] == self._claimant.instance_id

    def _is_done(self, wanted: bool) -> bool:
        is_paused = self._puller is not None and self._puller.is_paused
        return wanted is self.is_draining and wanted is is_paused

    def _is_lost(self, record: Record) -> bool:
        return self.is_draining and DRAIN not in record

    async def _check_setting(self) -> None:
        assert self._puller is not None
        record = await self._store.registry.get(self._claimant.worker_id, at_leader=True)
        if record is None:
            return  # the next heartbeat writes it, and that is pushed
        if self._is_lost(record):
            await self._store.registry.merge(self._claimant.worker_id, {DRAIN: self._claimant.instance_id})
            return
        wanted = self._is_wanted(record)
        if not self._is_done(wanted):
            await (self._drain(self._puller) if wanted else self._resume(self._puller))
            fields = {"worker_id": self._claimant.worker_id, "draining": wanted}
            log.info("no new runs are taken" if wanted else "runs are taken again", extra=fields)
        await self._wait_for_pushed(wanted)

    async def _wait_for_pushed(self, read: bool) -> None:
        """The leader may not have the pushed setting yet, or may have refused it."""
        if self._pushed is None or self._pushed is read or self._reads >= READS_MAX:
            self._pushed = None
            return
        self._reads += 1
        await self._loop.pause_until_stopped(READ_AGAIN.after(self._reads))
        self._loop.wake()

    async def _drain(self, puller: JobPuller) -> None:
        """Jobs received before are executed: the entry lists their runs before it shows draining."""
        await puller.pause()
        await self._none_starting.wait()
        self.is_draining = True
        await self._publish()

    async def _resume(self, puller: JobPuller) -> None:
        is_published = self.is_draining = False
        try:
            await self._publish()
            is_published = True
        finally:  # otherwise the entry still shows that it drains, and the loop retries
            self.is_draining = not is_published
        await puller.resume()


class StartingDelivery:
    """A delivery until its run is listed, or until it ends without one."""

    __slots__ = ("_is_open", "_on_started")

    def __init__(self, on_started: Callable[[], None]) -> None:
        self._on_started = on_started
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.note_started()

    def note_started(self) -> None:
        """Callable twice."""
        if self._is_open:
            self._is_open = False
            self._on_started()
