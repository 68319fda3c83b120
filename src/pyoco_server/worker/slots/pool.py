"""The slots of a worker: as many as it may run at once, each replaced when it has died."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from pyoco_server.lifecycle.commands import FailRun, ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.worker.claim import Claimed
from pyoco_server.worker.performer import Ending
from pyoco_server.worker.reasons import EXECUTION_ERROR
from pyoco_server.worker.recorder import Recorder
from pyoco_server.worker.slots.slot import ResolverBroken, Slot, SlotDied
from pyoco_server.worker.under_way import UnderWay

log = logging.getLogger(__name__)


class Slots:
    """A performer: every run has a process to itself, and only that process pays for what the run does."""

    def __init__(self, spec: str, count: int) -> None:
        self._spec = spec
        self._count = count
        self._free: deque[Slot] = deque()
        self._busy: set[Slot] = set()
        self._stopping = False

    async def start(self) -> None:
        self._free.extend(await asyncio.gather(*(self._new() for _ in range(self._count))))

    async def perform(self, claimed: Claimed, recorder: Recorder, under_way: UnderWay) -> Ending:
        try:
            slot = self._free.popleft() if self._free else await self._new()
        except (SlotDied, ResolverBroken, TimeoutError, OSError) as error:
            return _failed(claimed, f"no process could be started for it: {error}")
        self._busy.add(slot)
        under_way.begin(slot, recorder)
        try:
            ending = await slot.perform(claimed, recorder)
        except SlotDied as died:
            ending = self._loss(claimed, recorder, str(died))
        except Exception as error:  # the run is ours, and nobody else would end it
            log.exception("slot broke", extra={"run_id": claimed.stored.run.run_id})
            ending = _failed(claimed, f"its process was not understood: {error!r}")
        under_way.performed()
        self._busy.discard(slot)
        if slot.is_free and not under_way.is_abandoned and not self._stopping:
            self._free.append(slot)
        else:
            await slot.close()
        return ending

    async def hand_back(self) -> None:
        self._stopping = True
        for slot in self._busy:
            slot.terminate()

    async def close(self) -> None:
        self._stopping = True
        slots = [*self._free, *self._busy]
        self._free.clear()
        await asyncio.gather(*(slot.close() for slot in slots))

    async def _new(self) -> Slot:
        slot = Slot(self._spec)
        try:
            await slot.start()
        except BaseException:
            await slot.close()
            raise
        return slot

    def _loss(self, claimed: Claimed, recorder: Recorder, how: str) -> ReportLoss:
        cause = LossCause.HANDED_BACK if self._stopping else LossCause.SLOT_CRASHED
        log.warning(
            "slot died", extra={"run_id": claimed.stored.run.run_id, "reason": how, "cause": cause.value}
        )
        return ReportLoss(
            fence=claimed.fence,
            cause=cause,
            losses_max=recorder.losses_max,
            crashes_max=recorder.crashes_max,
            detail=how,
        )


def _failed(claimed: Claimed, error: str) -> FailRun:
    return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error=error)
