"""The heartbeat of a worker: renews its lease each second and its registry entry every few seconds.

Other parts of the worker (the wheels, for example) add members to the entry by `extra`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import socket
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import PackageNotFoundError, version

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.store.fleet.leases import Lease, boot_id
from pyoco_server.store.fleet.registry import WorkerState
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop
from pyoco_server.worker.attempt.claim import Claimant
from pyoco_server.worker.presence.lease_deadline import LeaseDeadline

log = logging.getLogger(__name__)

REGISTRY_PAUSE_SEC = 0.25


class Heartbeat:
    def __init__(
        self,
        store: Store,
        claimant: Claimant,
        tags: list[str],
        slots: int,
        in_flight: Collection[str],
        extra: Callable[[], Mapping[str, object]] | None = None,
    ) -> None:
        self._store = store
        self._claimant = claimant
        self._tags = tags
        self._slots = slots
        # Runs from before their claim is sent until their delivery is settled.
        self._in_flight = in_flight
        self._fences: dict[str, int] = {}
        self._extra = extra
        self._host, self._pid = socket.gethostname(), os.getpid()
        self._process = _process(self._host, self._pid)
        self._revision = 0
        self._fetched_at: float | None = None
        self._running: dict[str, float] = {}
        self._changes: dict[str, object] = {}
        self._publishing = asyncio.Lock()
        self._is_started = self._is_stopped = False
        config = store.config
        self.deadline = LeaseDeadline(config.worker_lease_sec)
        self._lease_loop = Loop(
            "worker lease",
            self._keep_lease,
            interval_sec=config.worker_lease_interval_sec,
            backoff=Backoff(first_sec=0.1, longest_sec=config.worker_lease_interval_sec),
            waits_first=True,
        )
        self._entry_loop = Loop(
            "worker registry entry",
            self._keep_entry,
            interval_sec=config.worker_heartbeat_interval_sec,
            waits_first=True,
        )

    async def start(self) -> None:
        """The lease is stored before the first claim: a claim without a lease would count as lost."""
        self._is_started = True
        await self._renew()
        self._changes = {"stopped_at": None, "stop_reason": None}
        await self.publish()
        self._lease_loop.start()
        self._entry_loop.start()

    async def stop(self, reason: str) -> None:
        """Callable twice, and before start: a worker that never registered reports no stop."""
        if self._is_stopped or not self._is_started:
            return
        self._is_stopped = True
        within_sec = self._store.config.broker_timeout_sec * 2
        await asyncio.gather(self._lease_loop.stop(within_sec), self._entry_loop.stop(within_sec))
        self._changes |= {
            "state": WorkerState.STOPPED_GRACEFUL,
            "stopped_at": clock.now(),
            "stop_reason": reason,
        }
        # The worker stops in any case: DISCONNECTED is then derived from its lease.
        with contextlib.suppress(Unavailable, WrongSequence):
            await self.publish()
            await self._store.leases.release(self._claimant.instance_id, revision=self._revision)

    def note_run_start(self, run_id: str, fence: int = 0) -> None:
        self._fences[run_id] = fence
        self._running[run_id] = clock.now()
        self.publish_soon()

    def note_run_end(self, run_id: str, status: str | None) -> None:
        self._fences.pop(run_id, None)
        started_at = self._running.pop(run_id, None)
        if started_at is not None:
            # All members together: `last_run_*` describes one run, also while another one is in flight.
            self._changes |= {"last_run_id": run_id, "last_run_status": status}
            self._changes |= {"last_run_started_at": started_at, "last_run_finished_at": clock.now()}
            self.publish_soon()

    def note_fetch(self, at: float | None) -> None:
        """When the queue last answered, also with nothing. A request without a reply does not count."""
        self._fetched_at = at

    def publish_soon(self) -> None:
        """Runs or `extra` have changed: publish the entry soon instead of with the next heartbeat."""
        self._entry_loop.wake()

    async def publish(self) -> None:
        """Publish the entry now: a reader finds the new state after this call."""
        async with self._publishing:
            changes, self._changes = self._changes, {}
            try:
                await self._store.registry.merge(self._claimant.worker_id, self._entry() | changes)
            except Unavailable:
                self._changes = changes | self._changes  # otherwise they would never be published
                raise

    async def _keep_lease(self) -> None:
        # After a renewal whose reply was lost, the next one gets the current revision.
        with contextlib.suppress(WrongSequence):
            await self._renew()

    async def _keep_entry(self) -> None:
        await self.publish()
        # Runs of a millisecond must not cost a registry write each.
        await self._entry_loop.pause_until_stopped(REGISTRY_PAUSE_SEC)

    async def _renew(self) -> None:
        lease = Lease(
            holder=self._claimant.instance_id,
            worker_id=self._claimant.worker_id,
            host=self._host,
            boot_id=boot_id(),
            pid=self._pid,
            tags=self._tags,
            free_slots=self._free_slots,
            holds={run_id: self._fences.get(run_id, 0) for run_id in self._in_flight},
        )
        sent_at = elapsed()
        self._revision = await self._store.leases.renew(
            self._claimant.instance_id, lease, revision=self._revision
        )
        self.deadline.renew(sent_at)

    @property
    def _free_slots(self) -> int:
        return max(0, self._slots - len(self._running))

    def _entry(self) -> dict[str, object]:
        now = clock.now()
        return (
            dict(self._extra() if self._extra is not None else {})
            | self._process
            | {
                "instance_id": self._claimant.instance_id,
                "state": WorkerState.RUNNING if self._running else WorkerState.IDLE,
                "last_seen_at": now,
                "last_heartbeat_at": now,
                "heartbeat_at": now,
                "last_fetch_at": self._fetched_at,
                "tags": self._tags,
                "slots": self._slots,
                "free_slots": self._free_slots,
                "current_run_id": next(iter(self._running), None),
                "current_run_ids": list(self._running),
            }
        )


def _process(host: str, pid: int) -> dict[str, object]:
    """The members that do not change until the process ends."""
    versions = {"pyoco_server": "pyoco-server", "pyoco": "pyoco"}
    return {
        "host": host,
        "pid": pid,
        "started_at": clock.now(),
        "versions": {name: _version(package) for name, package in versions.items()}
        | {"python": platform.python_version()},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that was never installed
        return None
