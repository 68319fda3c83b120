"""Schedules that are due: one step after another, as `schedules.decide` says.

The instants are kept in memory and updated each round from the changed records. The decision is made on the
record that the leader returns. Every write is a compare-and-set, so of two gateways one is refused. The
record names the occurrence (`beginning_at`) before its run is submitted. If the schedule is deleted or paused
before that write, no run begins. If it is deleted or paused after it, the answer follows when the run exists.
"""

from __future__ import annotations

import asyncio

from pyoco_server import clock
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.operations.occurrences import perform, running_of
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.schedules.decide import BeginPlanned, next_step, wakes_at
from pyoco_server.schedules.record import CatchUp, Schedule
from pyoco_server.store.store import Store

# The rest is processed in the next round, a second later.
SCHEDULES_AT_ONCE = 200
STEPS_AT_ONCE = 100


class DueSchedules:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._isolation = Isolation("schedules")
        self._wakes_at: dict[str, float] = {}
        self._seen = 0

    def forget(self) -> None:
        """Another gateway holds the lease, or the broker was away: the revisions may be of another bucket."""
        self._wakes_at.clear()
        self._seen = 0

    async def look(self) -> int:
        """Returns how many runs were submitted."""
        await self._read_changes()
        if self._store.room.is_low:
            return 0  # they stay due; when there is room, their catch-up policy decides
        now = clock.now()
        due = sorted((at, schedule_id) for schedule_id, at in self._wakes_at.items() if at <= now)
        some = [schedule_id for _, schedule_id in due[:SCHEDULES_AT_ONCE]]
        return await self._isolation.each(some, lambda one: self._try_steps(one, now), key=str)

    async def _read_changes(self) -> None:
        for changed in await self._store.schedules.changed_after(self._seen):
            self._seen = max(self._seen, changed.revision)
            at = None if changed.schedule is None else wakes_at(changed.schedule)
            if at is None:
                self._wakes_at.pop(changed.schedule_id, None)
            else:
                self._wakes_at[changed.schedule_id] = at

    async def _try_steps(self, schedule_id: str, now: float) -> int:
        try:
            return await self._steps(schedule_id, now)
        except WrongSequence:
            return 0  # another gateway changed it first; the next round reads it again

    async def _steps(self, schedule_id: str, now: float) -> int:
        begun, has_tried = 0, False
        for _ in range(STEPS_AT_ONCE):
            stored = await self._store.schedules.get(schedule_id)
            if stored is None or (has_tried and stored.schedule.last_error is not None):
                break
            running = await running_of(self._store, self._read_model, stored.schedule)
            # In a thread: to find and count what was missed in a year takes a second.
            step = await asyncio.to_thread(next_step, stored.schedule, now, running)
            if step is None:
                break
            begun += await perform(self._store, stored, step, now)
            has_tried = isinstance(step, BeginPlanned)
            if has_tried and not _begins_several(stored.schedule):
                break
        return begun


def _begins_several(schedule: Schedule) -> bool:
    """Whether more than one run may be due at a time."""
    return schedule.is_backfilling or schedule.policies.catch_up is not CatchUp.LAST
