"""What a worker says of itself while it lives: its lease each second, its registry entry every few."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from typing import Any

from pyoco_server.errors import Unavailable
from pyoco_server.store.errors import WrongSequence
from pyoco_server.store.leases import Lease, boot_id
from pyoco_server.store.store import Store
from pyoco_server.worker.claim import Claimant

log = logging.getLogger(__name__)

REGISTRY_PAUSE_SEC = 0.25


class SignOfLife:
    def __init__(self, store: Store, claimant: Claimant, tags: list[str], slots: int) -> None:
        self._store = store
        self._claimant = claimant
        self._tags = tags
        self._slots = slots
        self._revision = 0
        self._running: dict[str, float] = {}
        self._changes: dict[str, Any] = {}
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """The lease stands before the first claim: a claim without one would look lost."""
        await self._renew()
        self._changes = {"stopped_at": None, "stop_reason": None, "current_run_id": None}
        await self._register()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_lease()), loop.create_task(self._keep_entry())]

    async def stop(self, reason: str) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._changed.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._store.config.broker_timeout_sec * 2)
        self._changes |= {"state": "STOPPED_GRACEFUL", "stopped_at": time.time(), "stop_reason": reason}
        with contextlib.suppress(Unavailable, WrongSequence):  # we are leaving: DISCONNECTED is derived then
            await self._register()
            await self._store.leases.release(self._claimant.instance_id, revision=self._revision)

    def run_began(self, run_id: str) -> None:
        self._running[run_id] = time.time()
        self._changes["last_run_started_at"] = self._running[run_id]
        self._changed.set()

    def run_ended(self, run_id: str, status: str | None) -> None:
        if self._running.pop(run_id, None) is not None:
            self._changes |= {"last_run_id": run_id, "last_run_status": status}
            self._changes["last_run_finished_at"] = time.time()
            self._changed.set()

    def fetched(self) -> None:
        self._changes["last_fetch_at"] = time.time()

    async def _keep_lease(self) -> None:
        while not self._stopping.is_set():
            await _pause(self._stopping, self._store.config.worker_lease_interval_sec)
            # The next second tries again, also where a renewal whose answer was lost came in between.
            with contextlib.suppress(Unavailable, WrongSequence):
                await self._renew()

    async def _keep_entry(self) -> None:
        while not self._stopping.is_set():
            await _pause(self._changed, self._store.config.worker_heartbeat_interval_sec)
            self._changed.clear()
            if self._stopping.is_set():
                return
            with contextlib.suppress(Unavailable):
                await self._register()
            # Runs of a millisecond must not cost a registry write each.
            await _pause(self._stopping, REGISTRY_PAUSE_SEC)

    async def _renew(self) -> None:
        lease = Lease(
            holder=self._claimant.instance_id,
            worker_id=self._claimant.worker_id,
            host=socket.gethostname(),
            boot_id=boot_id(),
            pid=os.getpid(),
            tags=self._tags,
            free_slots=max(0, self._slots - len(self._running)),
        )
        self._revision = await self._store.leases.renew(
            self._claimant.instance_id, lease, revision=self._revision
        )

    async def _register(self) -> None:
        now = time.time()
        current = next(iter(self._running), None)
        entry = {
            "instance_id": self._claimant.instance_id,
            "state": "RUNNING" if self._running else "IDLE",
            "last_seen_at": now,
            "last_heartbeat_at": now,
            "heartbeat_at": now,
            "tags": self._tags,
            "slots": self._slots,
            "current_run_id": current,
            "current_run_ids": list(self._running),
        }
        changes, self._changes = self._changes, {}
        try:
            await self._store.registry.merge(self._claimant.worker_id, entry | changes)
        except Unavailable:
            self._changes = changes | self._changes  # else nobody would ever hear of them
            raise


async def _pause(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
