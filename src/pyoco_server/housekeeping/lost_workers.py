"""Ends the claims of lost workers, so that other workers take over their runs.

`observe` reads the leases and measures how long each has not changed; it is called whenever our own lease is
renewed. `take_over` acts on what was observed. A run that cannot be taken does not delay the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

import msgspec

from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping.isolation import Isolation, sum_of_all
from pyoco_server.housekeeping.local_processes import LocalProcesses
from pyoco_server.housekeeping.stillness import Stillness
from pyoco_server.lifecycle.commands import ReportLoss
from pyoco_server.lifecycle.events import RunFailed
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.operations.fleet.publish_dead_letter import MAX_DELIVER, publish_dead_letter
from pyoco_server.operations.logs.notices import note_soon
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

RUNS_AT_ONCE = 200
# Taken concurrently: a worker waits for them.
TAKEN_AT_ONCE = 8
LOOKED_AT_MAX = 10_000


class _Entry(msgspec.Struct):
    """The members of a registry entry that are used here."""

    instance_id: str = ""
    host: str = ""


class LostWorkers:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._lease_sec = store.config.worker_lease_sec
        self._stillness = Stillness(step_sec_max=2 * store.config.housekeeping_interval_sec)
        self._isolation = Isolation("lost workers")
        self.processes = LocalProcesses()
        self._looked_at: dict[str, None] = {}
        self._new: list[str] = []
        # By instance, as last observed: its lease (None: it has none) and the lease's revision.
        self.leases: dict[str, tuple[Lease | None, int]] = {}

    def on_broker_away(self, now: float) -> None:
        self._stillness.observe({}, now, own_write_went_through=False)

    async def look(self, now: float, *, own_write_went_through: bool) -> int:
        await self.observe(now, own_write_went_through=own_write_went_through)
        return await self.take_over()

    async def observe(self, now: float, *, own_write_went_through: bool) -> None:
        instances = self._read_model.housekeeping.claiming_instances()
        self.leases = dict(zip(instances, await self._read(instances), strict=True))
        revisions = {instance: revision for instance, (_, revision) in self.leases.items()}
        self._stillness.observe(revisions, now, own_write_went_through=own_write_went_through)

    async def take_over(self) -> int:
        """End the claims of instances whose lease did not change for a lease period. Returns how many."""
        lost = [instance for instance, (lease, _) in self.leases.items() if self._is_lost(instance, lease)]
        return sum([await self._take_from(instance) for instance in lost])

    async def take_from_ended(self) -> int:
        """End the claims of processes of this machine that have ended, without waiting for their leases."""
        claiming = self._read_model.housekeeping.claiming_instances()
        ended = [instance for instance in self.processes.ended if instance in claiming]
        return sum([await self._take_from(instance) for instance in ended])

    def is_new_and_local(self, entry: bytes) -> bool:
        """Whether the worker that wrote this entry is new, so that `watch_new` watches it."""
        instance = _instance_on_this_host(entry)
        if instance is None or instance in self._looked_at:
            return False
        put_bounded(self._looked_at, instance, None, LOOKED_AT_MAX)
        self._new.append(instance)
        return True

    async def watch_new(self) -> None:
        """Watch the processes of new workers on this machine, so that their end is noticed at once."""
        while self._new:
            lease, _ = await self._store.leases.read(self._new[-1])
            instance = self._new.pop()
            if lease is not None:
                self.processes.watch(instance, lease)

    def _is_lost(self, instance: str, lease: Lease | None) -> bool:
        is_still = self._stillness.still_sec(instance) >= self._lease_sec
        return self.processes.has_ended(instance, lease) or is_still

    async def _read(self, instances: set[str]) -> list[tuple[Lease | None, int]]:
        return list(await asyncio.gather(*(self._store.leases.read(instance) for instance in instances)))

    async def _take_from(self, instance: str) -> int:
        runs = self._read_model.housekeeping.claimed_by(instance, RUNS_AT_ONCE)
        return await sum_of_all(
            self._isolation.each_run(runs[first::TAKEN_AT_ONCE], lambda run: self._report(run, instance))
            for first in range(TAKEN_AT_ONCE)
        )

    async def _report(self, run: Run, instance: str) -> bool:
        if run.claim is None:
            return False
        loss = ReportLoss(
            fence=run.claim.fence,
            cause=LossCause.WORKER_LOST,
            losses_max=self._store.config.consumer_max_deliver,
            crashes_max=self._store.config.max_crashes,
            detail=f"worker {run.claim.worker_id} gave no sign of life",
        )
        text = f"{loss.detail}; the run is taken from it"
        if run.cancel is not None:
            # The run ends now. The line comes first and raises the fence, so a late worker adds nothing.
            await note_soon(self._store, run.run_id, text, fence=run.claim.fence + 1)
        # The letter is noted before the commit, so that a crash after the commit does not lose it.
        is_last = run.cancel is None and run.losses + 1 >= loss.losses_max
        noted = await self._store.owed_letters.note(run.run_id, MAX_DELIVER) if is_last else None
        applied = await apply(self._store, run.run_id, loss)
        if not applied.events or applied.after is None:
            return False  # another process was faster; its note may have replaced ours, so it stays
        if run.cancel is None:
            await note_soon(self._store, run.run_id, text)
        log.warning("run taken from a lost worker", extra={"run_id": run.run_id, "instance_id": instance})
        if any(isinstance(event, RunFailed) for event in applied.events):
            await self._write_letter(applied.after.run, noted)
        return True

    async def _write_letter(self, run: Run, noted: int | None) -> None:
        """If this fails, `missing_letters` publishes the letter."""
        with contextlib.suppress(Unavailable):
            if noted is None:  # the list of runs was behind the log
                noted = await self._store.owed_letters.note(run.run_id, MAX_DELIVER)
            if await publish_dead_letter(self._store, run, MAX_DELIVER):
                await self._store.owed_letters.remove(run.run_id, noted)


def _instance_on_this_host(entry: bytes) -> str | None:
    try:
        found = msgspec.json.decode(entry, type=_Entry) if entry else _Entry()
    except msgspec.MsgspecError:  # another version or program wrote it
        return None
    return found.instance_id if found.instance_id and found.host == socket.gethostname() else None
