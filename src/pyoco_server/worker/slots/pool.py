"""The slots of a worker: one for each run at a time, replaced when its process has died or is out of date.

Flow files and wheels have editions. A new edition is first loaded in one process; if that succeeds, the other
slots are replaced, each between two runs. A slot belongs to the tenant of its first run until it is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import FailRun, ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.supervision import Backoff, Loop, contain
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR
from pyoco_server.worker.performer import Ending
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.slots.edition import Edition, ResolverBroken, SlotDied
from pyoco_server.worker.slots.processes import SlotProcesses
from pyoco_server.worker.slots.slot import Slot
from pyoco_server.worker.slots.zygote_spawn import SpawnedZygote

log = logging.getLogger(__name__)

CANNOT_START = (SlotDied, ResolverBroken, TimeoutError, OSError)
RECOVERY = Backoff(first_sec=0.5, longest_sec=30.0)


class Slots:
    """A performer: every run has its own process, and no other process is affected by what the run does."""

    def __init__(
        self, config: NatsBackendConfig, spec: str, count: int, zygote: SpawnedZygote | None = None
    ) -> None:
        self._config = config
        self._processes = SlotProcesses(config, spec, self._refill_soon, zygote)
        self._count = count
        self._edition = Edition()
        self._renewing = asyncio.Lock()
        self._free: list[Slot] = []
        self._busy: set[Slot] = set()
        self._stopping = False
        self._on_change: Callable[[], None] = lambda: None
        self._recovery = Loop("slots", self._recover, backoff=RECOVERY)
        self._refilling = Loop("refill of slots", self._refill)
        self.problem: str | None = None

    def on_change(self, act: Callable[[], None]) -> None:
        self._on_change = act

    async def start(self, path: Path | None = None) -> None:
        self._edition = Edition(path=path)
        self._free.append(await self._new())  # runs are taken as soon as there is one
        self._recovery.start()
        self._refilling.start()
        self._refilling.wake()

    async def renew(self, path: Path | None = None) -> None:
        """Load everything again, with `path` (default: the current one) first on the import path.

        Runs in flight are not affected. Raises ResolverBroken or SlotDied if it cannot be loaded: then the
        edition before stays in use.
        """
        async with self._renewing:
            edition = Edition(self._edition.number + 1, path or self._edition.path)
            try:
                first = await self._new(edition)
            except CANNOT_START:
                self._processes.retire_others(self._edition)
                raise
            self._edition = edition
            self._free.append(first)
            self._processes.retire_others(edition)
            while not self._stopping and (old := self._out_of_date()) is not None:
                self._free.remove(old)
                await old.close()
                if len(self._free) + len(self._busy) < self._count:
                    self._free.append(await self._new())

    @property
    def paths_in_use(self) -> AbstractSet[Path]:
        editions = (self._edition, *(slot.edition for slot in (*self._free, *self._busy)))
        return {edition.path for edition in editions if edition.path is not None}

    @property
    def flows(self) -> dict[str, str]:
        return next((slot.flows for slot in self._up_to_date()), {})

    @property
    def flow_params(self) -> dict[str, list[dict[str, Any]]]:
        return next((slot.flow_params for slot in self._up_to_date()), {})

    def _up_to_date(self) -> Iterator[Slot]:
        return (slot for slot in (*self._free, *self._busy) if slot.edition == self._edition)

    async def perform(self, claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor) -> Ending:
        tenant = claimed.submission.tenant_id
        try:
            slot = self._take(tenant) or await self._replace_free_slot()
        except CANNOT_START as error:
            # Another worker can execute the run. This one takes no runs until a slot can be started.
            self._report(error)
            return recorder.loss(LossCause.HANDED_BACK, f"no process could be started for it: {error}")
        slot.tenant = tenant
        self._busy.add(slot)
        monitor.begin(slot, recorder)
        # This worker holds the run, so it has to end it after any error.
        with contain("slots", "slot broke", run_id=claimed.stored.run.run_id) as contained:
            try:
                ending = await slot.perform(claimed, recorder)
            except SlotDied as died:
                ending = self._loss(claimed, recorder, str(died))
        if contained.error is not None:
            text = f"its process was not understood: {contained.error!r}"
            ending = FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error=text)
        monitor.detach_engine()
        self._busy.discard(slot)
        if slot.is_free and not monitor.is_abandoned and self._has_room_for(slot):
            self._free.append(slot)
        else:
            await slot.close()
            self._refilling.wake()
        return ending

    async def hand_back(self) -> None:
        self._stopping = True
        for slot in self._busy:
            slot.terminate()

    async def close(self) -> None:
        self._stopping = True
        await asyncio.gather(self._recovery.stop(), self._refilling.stop())
        slots = [*self._free, *self._busy]
        self._free.clear()
        await asyncio.gather(*(slot.close() for slot in slots))
        self._processes.close()

    def _take(self, tenant: str | None) -> Slot | None:
        """A free slot that may run this tenant's code: the one used last, because its caches are warm."""
        for slot in reversed(self._free):
            fits = slot.edition == self._edition and (slot.is_unused or slot.tenant == tenant)
            if fits and slot.is_alive():
                self._free.remove(slot)
                return slot
        return None

    async def _replace_free_slot(self) -> Slot:
        """A new slot instead of a free one that is out of date or belongs to another tenant."""
        if self._free:
            await self._free.pop(0).close()
        return await self._new()

    def _has_room_for(self, slot: Slot) -> bool:
        return self._has_room and slot.is_usable and slot.edition == self._edition

    @property
    def _has_room(self) -> bool:
        return len(self._free) + len(self._busy) < self._count and not self._stopping

    async def _refill(self) -> None:
        """Start slots in advance, so that the next run does not wait for one."""
        await self._prepare()
        await self._remove_dead()
        while self._has_room:
            missing = self._count - len(self._free) - len(self._busy)
            at_once = 1 if self._processes.are_forked else missing
            if not all(await asyncio.gather(*(self._add_slot() for _ in range(at_once)))):
                return

    async def _remove_dead(self) -> None:
        dead = [slot for slot in self._free if not slot.is_usable]
        self._free = [slot for slot in self._free if slot.is_usable]
        await asyncio.gather(*(slot.close() for slot in dead))

    async def _add_slot(self) -> bool:
        try:
            slot = await self._new()
        except CANNOT_START as error:
            self._report(error)
            return False
        is_kept = self._has_room_for(slot)
        if is_kept:
            self._free.append(slot)
        else:
            await slot.close()
        return is_kept

    async def _prepare(self) -> None:
        """After the loss of a zygote. If it fails, existing slots are used; the next start reports it."""
        with contextlib.suppress(*CANNOT_START):
            if not self._stopping:
                await self._processes.prepare(self._edition)

    def _refill_soon(self) -> None:
        if not self._stopping:
            self._refilling.wake()

    def _report(self, error: Exception) -> None:
        is_new = self.problem is None
        self.problem = f"no slot can be started: {error or type(error).__name__}"
        if is_new:
            log.error("no slot can be started; no runs are taken", extra={"error": str(error)})
        self._on_change()
        self._recovery.wake()

    async def _recover(self) -> None:
        """Raises until a slot can be started; then runs are taken again."""
        if self.problem is None or self._stopping:
            return
        try:
            slot = await self._new()
        except CANNOT_START as error:
            raise Unavailable(f"No slot can be started: {error or type(error).__name__}.") from error
        if self._has_room_for(slot):
            self._free.append(slot)
        else:
            await slot.close()
        self.problem = None
        log.info("slots can be started again; runs are taken")
        self._on_change()
        self._refilling.wake()

    def _out_of_date(self) -> Slot | None:
        return next((slot for slot in self._free if slot.edition != self._edition), None)

    async def _new(self, edition: Edition | None = None) -> Slot:
        slot = Slot(self._config, self._processes, edition or self._edition, self._refill_soon)
        async with AsyncExitStack() as on_error:  # also when cancelled: the process would be left behind
            on_error.push_async_callback(slot.close)
            await slot.start()
            on_error.pop_all()
        return slot

    def _loss(self, claimed: Claimed, recorder: Recorder, how: str) -> ReportLoss:
        cause = LossCause.HANDED_BACK if self._stopping else LossCause.SLOT_CRASHED
        log.warning(
            "slot died", extra={"run_id": claimed.stored.run.run_id, "reason": how, "cause": cause.value}
        )
        return recorder.loss(cause, how)
