"""The slots of a worker: chosen for each run, replaced when its process has died or is out of date.

Flow files and wheels have editions. A new edition is first loaded in one process; if that succeeds, the other
slots are replaced, each between two runs. A slot belongs to the tenant of its first run until it is replaced.

Runs of flows that are known to be short share a slot with others of the same tenant (`short_flows.py`). A
process that is awake takes the next one at less cost than one that has to be woken.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from pathlib import Path

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import FailRun
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.supervision import Backoff, Loop, contain, start_task
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR
from pyoco_server.worker.endings import Ending
from pyoco_server.worker.places import Place
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.short_flows import FlowKey, ShortFlows, Wanted
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.edition import Edition, ResolverBroken, SlotDied
from pyoco_server.worker.slots.endings import NOT_BEGUN, ending_in, note_times
from pyoco_server.worker.slots.processes import SlotProcesses
from pyoco_server.worker.slots.slot import Slot
from pyoco_server.worker.slots.slot_run import LeftSlot
from pyoco_server.worker.slots.zygote_spawn import SpawnedZygote
from pyoco_server.worker.waiting_line import WaitingLine

log = logging.getLogger(__name__)

CANNOT_START = (SlotDied, ResolverBroken, TimeoutError, OSError)
RECOVERY = Backoff(first_sec=0.5, longest_sec=30.0)
# A short run joins others in a slot if it has to wait there no longer than this.
WAIT_SEC_MAX = 0.005
# How often processes with short runs are checked; less often if all of these have begun.
CHECK_SEC = 0.002
CHECK_BEGUN_SEC = 0.004
# If a run has waited this long for a slot, short runs that wait in one are handed back.
MAKE_ROOM_SEC = 0.1
# If it has waited this long, it is handed back: its cancel must not wait for other runs.
FIND_SEC_MAX = 2.0


class Slots:
    """A performer: runs have processes of their own; only runs of short flows share one."""

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
        self._starting = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._waiting = WaitingLine()
        self._checking: asyncio.TimerHandle | None = None
        self._short_flows = ShortFlows()
        self._stopping = False
        self._on_change: Callable[[], None] = lambda: None
        self._recovery = Loop("slots", self._recover, backoff=RECOVERY)
        self._refilling = Loop("refill of slots", self._refill)
        self.problem: str | None = None

    def on_change(self, act: Callable[[], None]) -> None:
        self._on_change = act

    async def start(self, path: Path | None = None) -> None:
        self._edition = Edition(path=path)
        self._free.append(await self._new())
        self._recovery.start()
        self._refilling.start()
        if self._processes.are_forked:
            self._refilling.wake()  # runs are taken meanwhile; each could also fork its slot
        else:
            await self._refill()

    async def renew(self, path: Path | None = None) -> None:
        """Load everything again, with `path` (default: the current one) first on the import path.

        Raises ResolverBroken or SlotDied if it cannot be loaded: then the edition before stays in use.
        """
        async with self._renewing:
            edition = Edition(self._edition.number + 1, path or self._edition.path)
            try:
                first = await self._new(edition)
            except CANNOT_START:
                self._processes.retire_others(self._edition)
                raise
            self._edition = edition
            self._add_free(first)
            self._processes.retire_others(edition)
            while not self._stopping and (old := self._out_of_date()) is not None:
                self._free.remove(old)
                await old.close()
                if len(self._free) + len(self._busy) < self._count:
                    self._add_free(await self._new())

    @property
    def paths_in_use(self) -> AbstractSet[Path]:
        editions = (self._edition, *(slot.edition for slot in (*self._free, *self._busy)))
        return {edition.path for edition in editions if edition.path is not None}

    @property
    def slot_pids(self) -> list[int]:
        return [slot.pid for slot in (*self._free, *self._busy)]

    @property
    def flows(self) -> dict[str, str]:
        return next((slot.flows for slot in self._up_to_date()), {})

    @property
    def flow_params(self) -> dict[str, list[dict[str, object]]]:
        return next((slot.flow_params for slot in self._up_to_date()), {})

    def _up_to_date(self) -> Iterator[Slot]:
        return (slot for slot in (*self._free, *self._busy) if slot.edition == self._edition)

    async def perform(
        self, claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor, place: Place
    ) -> Ending:
        wanted = self._wanted(claimed)
        if wanted.stretch_sec is not None:
            place.share()
        while True:
            try:
                slot = await self._find(wanted)
            except CANNOT_START as error:
                # Another worker can execute the run. This one takes no runs until a slot can be started.
                self._report(error)
                return recorder.loss(LossCause.HANDED_BACK, f"no process could be started for it: {error}")
            if slot is None or monitor.is_taken_over:
                self._give_back(slot)
                return recorder.loss(LossCause.HANDED_BACK, NOT_BEGUN)
            left = await self._perform_in(slot, wanted, claimed, recorder, monitor, place)
            if left is not LeftSlot.UNBEGUN or monitor.is_cancelled:
                return await ending_in(slot, left, claimed, recorder, is_stopping=self._stopping)

    async def _perform_in(
        self,
        slot: Slot,
        wanted: Wanted,
        claimed: Claimed,
        recorder: Recorder,
        monitor: AttemptMonitor,
        place: Place,
    ) -> m.EndedMessage | LeftSlot | FailRun:
        slot.tenant = wanted.key.tenant
        self._busy.add(slot)

        def on_long() -> None:
            place.occupy()
            self._short_flows.forget(wanted.key)

        run = slot.runs.add(claimed, recorder, wanted.stretch_sec, on_long)
        monitor.begin(run, recorder)
        slot.send(run)
        self._check_soon()
        self._waiting.wake()  # the next one may join it
        # This worker holds the run, so it has to end it after any error.
        with contain("slots", "slot broke", run_id=claimed.stored.run.run_id) as contained:
            left = await run.left
        self._waiting.wake()
        monitor.detach_engine()
        if contained.error is not None:
            slot.runs.abandon(run)
            text = f"its process was not understood: {contained.error!r}"
            return FailRun(fence=claimed.fence, reason=EXECUTION_ERROR, error=text)
        if isinstance(left, m.EndedMessage):
            note_times(self._short_flows, wanted.key, left, run)
        elif left is LeftSlot.DIED:
            self._short_flows.forget(wanted.key)
        return left

    def _wanted(self, claimed: Claimed) -> Wanted:
        """A run that was lost before may have been the cause: it does not share a slot."""
        submission, run = claimed.submission, claimed.stored.run
        sha256 = submission.workflow_yaml_sha256
        key = FlowKey(self._edition.number, submission.tenant_id, run.flow_name, sha256)
        is_suspect = run.crashes or run.losses or self._config.worker_interleaved_runs < 2
        return Wanted(key, None if is_suspect else self._short_flows.stretch_sec(key))

    async def hand_back(self) -> None:
        self._stopping = True
        for slot in self._busy:
            slot.terminate()
        self._waiting.wake(count=None)

    async def close(self) -> None:
        self._stopping = True
        self._waiting.wake(count=None)
        await asyncio.gather(self._recovery.stop(), self._refilling.stop())
        slots = [*self._free, *self._busy]
        self._free.clear()
        await asyncio.gather(*(slot.close() for slot in slots), *self._closing)
        self._processes.close()
        if self._checking is not None:
            self._checking.cancel()

    async def _find(self, wanted: Wanted) -> Slot | None:
        """A slot for the run, perhaps after another has ended. None: there is none, or the worker stops."""
        is_first = not self._waiting
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + FIND_SEC_MAX
        while not self._stopping:
            if is_first:
                slot = (
                    self._share(wanted) or self._take(wanted.key.tenant) or self._share(wanted, is_full=True)
                )
                if slot is not None:
                    return slot
                if self._free or self._has_room:
                    return await self._replace_free_slot()
            making_room = loop.call_later(MAKE_ROOM_SEC, self._make_room)
            try:
                async with asyncio.timeout_at(give_up_at):
                    await self._waiting.wait(is_first=is_first)
            except TimeoutError:
                return None
            finally:
                making_room.cancel()
            is_first = True
        return None

    def _share(self, wanted: Wanted, *, is_full: bool = False) -> Slot | None:
        """The slot with the most runs where this one does not have to wait long.

        With `is_full`, where all slots are busy: the one where it waits the shortest time.
        """
        if wanted.stretch_sec is None:
            return None
        here = (self._edition, wanted.key.tenant)
        fitting = (slot for slot in self._busy if (slot.edition, slot.tenant) == here)
        loads = {slot: load for slot in fitting if (load := slot.load_sec) is not None}
        if is_full:
            return min(loads, key=lambda slot: loads[slot], default=None)
        most_sec = WAIT_SEC_MAX - wanted.stretch_sec
        joinable = [slot for slot in loads if loads[slot] <= most_sec]
        return max(joinable, key=lambda slot: loads[slot], default=None)

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
        self._starting += 1
        try:
            if self._free:
                await self._free.pop(0).close()
            return await self._new()
        finally:
            self._starting -= 1

    def _on_idle(self, slot: Slot) -> None:
        """Its last run has left, or its process has ended."""
        if slot not in self._busy:
            self._refill_soon()
            return
        self._busy.discard(slot)
        if self._has_room_for(slot):
            self._add_free(slot)
        else:
            closing = start_task(slot.close(), "end of a slot")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            self._refilling.wake()
        self._waiting.wake()

    def _make_room(self) -> None:
        """A run waits although others only wait in slots, for a retry perhaps: these leave."""
        shared = [slot for slot in self._busy if slot.runs.has_short_runs]
        if shared:
            min(shared, key=lambda slot: slot.runs.in_flight).runs.vacate()
        self._waiting.wake()

    def _give_back(self, slot: Slot | None) -> None:
        """It was found for a run that does not begin."""
        if slot is not None and slot.runs.is_idle:
            self._busy.add(slot)
            self._on_idle(slot)

    def _add_free(self, slot: Slot) -> None:
        self._free.append(slot)
        self._waiting.wake()

    def _check_soon(self, within_sec: float = CHECK_SEC) -> None:
        if self._checking is None:
            self._checking = asyncio.get_running_loop().call_later(within_sec, self._check)

    def _check(self) -> None:
        """While short runs share slots: whether the processes go on."""
        self._checking = None
        now = asyncio.get_running_loop().time()
        slots = [slot for slot in self._busy if slot.runs.has_short_runs]
        for slot in slots:
            slot.runs.check(now)
        if slots:
            is_urgent = any(slot.runs.has_unbegun_runs for slot in slots)
            self._check_soon(CHECK_SEC if is_urgent else CHECK_BEGUN_SEC)

    def _has_room_for(self, slot: Slot) -> bool:
        return self._has_room and slot.is_usable and slot.edition == self._edition

    @property
    def _has_room(self) -> bool:
        return len(self._free) + len(self._busy) + self._starting < self._count and not self._stopping

    async def _refill(self) -> None:
        """Start slots in advance, so that the next run does not wait for one."""
        await self._prepare()
        await self._remove_dead()
        while self._has_room:
            at_once = 1 if self._processes.are_forked else self._count - len(self._free) - len(self._busy)
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
            self._add_free(slot)
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
        if self.problem is None:
            log.error("no slot can be started; no runs are taken", extra={"error": str(error)})
        self.problem = f"no slot can be started: {error or type(error).__name__}"
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
            self._add_free(slot)
        else:
            await slot.close()
        self.problem = None
        log.info("slots can be started again; runs are taken")
        self._on_change()
        self._refilling.wake()

    def _out_of_date(self) -> Slot | None:
        return next((slot for slot in self._free if slot.edition != self._edition), None)

    async def _new(self, edition: Edition | None = None) -> Slot:
        slot = Slot(self._config, self._processes, edition or self._edition, self._on_idle)
        async with AsyncExitStack() as on_error:  # also when cancelled: the process would be left behind
            on_error.push_async_callback(slot.close)
            await slot.start()
            on_error.pop_all()
        return slot
