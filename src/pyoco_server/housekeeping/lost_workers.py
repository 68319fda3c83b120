"""Runs whose worker is gone: their claims end, and whoever is free takes them over."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping.stillness import Stillness
from pyoco_server.lifecycle.commands import ReportLoss
from pyoco_server.lifecycle.events import RunFailed
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations.apply import apply
from pyoco_server.operations.bury import bury
from pyoco_server.operations.log_notices import note
from pyoco_server.store.leases import Lease, boot_id
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

RUNS_AT_ONCE = 200


class LostWorkers:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._lease_sec = store.config.worker_lease_sec
        self._stillness = Stillness(step_sec_max=2 * store.config.housekeeping_interval_sec)

    def was_away(self, now: float) -> None:
        self._stillness.observe({}, now, own_write_went_through=False)

    async def look(self, now: float, *, own_write_went_through: bool) -> int:
        """Ends the claims of instances whose lease stood still for too long. How many runs that were."""
        instances = self._read_model.claiming_instances()
        leases = dict(zip(instances, await self._read(instances), strict=True))
        revisions = {instance: revision for instance, (_, revision) in leases.items()}
        self._stillness.observe(revisions, now, own_write_went_through=own_write_went_through)
        lost = [
            instance
            for instance, (lease, _) in leases.items()
            if self._stillness.still_sec(instance) >= self._lease_sec or (lease and _died_here(lease))
        ]
        return sum([await self._take_from(instance) for instance in lost])

    async def _read(self, instances: set[str]) -> list[tuple[Lease | None, int]]:
        return list(await asyncio.gather(*(self._store.leases.read(instance) for instance in instances)))

    async def _take_from(self, instance: str) -> int:
        runs = self._read_model.claimed_by(instance, RUNS_AT_ONCE)
        for run in runs:
            await self._report(run, instance)
        return len(runs)

    async def _report(self, run: Run, instance: str) -> None:
        if run.claim is None:
            return
        loss = ReportLoss(
            fence=run.claim.fence,
            cause=LossCause.WORKER_LOST,
            losses_max=self._store.config.consumer_max_deliver,
            crashes_max=self._store.config.max_crashes,
            detail=f"worker {run.claim.worker_id} gave no sign of life",
        )
        # One that was asked to stop ends now: should its worker wake up, it has nothing to add.
        ends = run.claim.fence + 1 if run.cancel is not None else 0
        await note(self._store, run.run_id, f"{loss.detail}; the run is taken from it", fence=ends)
        try:
            applied = await apply(self._store, run.run_id, loss)
        except Unavailable:
            return  # still claimed, so still found the next time
        if not applied.events or applied.after is None:
            return
        log.warning("run taken from a lost worker", extra={"run_id": run.run_id, "instance_id": instance})
        if any(isinstance(event, RunFailed) for event in applied.events):
            await bury(self._store, applied.after.run, "max_deliver")


def _died_here(lease: Lease) -> bool:
    """Certain, and at once: it ran on this machine since its last start, and its process is gone."""
    if lease.host != socket.gethostname() or not lease.boot_id or lease.boot_id != boot_id():
        return False
    try:
        os.kill(lease.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
