"""Schedules that are due: the planned run is submitted, then the schedule moves to its next instant.

The instants are kept in memory and updated each round from the changed records. The decision is made on the
record that the leader returns. Every write is a compare-and-set, so of two gateways one is refused. The
record names the instant (`beginning_at`) before the run is submitted. If the schedule is deleted before that
write, no run begins. If it is deleted after it, the delete is answered when the run exists. Of several missed
instants only the latest is used; the others are skipped in the same write.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.jetstream.errors import BrokerRefused, WrongSequence
from pyoco_server.operations.schedules import begin_planned
from pyoco_server.schedules.decide import latest_due
from pyoco_server.schedules.transitions import advance
from pyoco_server.store.schedules import StoredSchedule
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# The rest is processed in the next round, a second later.
SCHEDULES_AT_ONCE = 200
NO_WORKFLOW = "The submission of its runs is missing. Delete the schedule and create it again."


class DueSchedules:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._isolation = Isolation("schedules")
        self._next_at: dict[str, float] = {}
        self._seen = 0

    def forget(self) -> None:
        """Another gateway holds the lease, or the broker was away: the revisions may be of another bucket."""
        self._next_at.clear()
        self._seen = 0

    async def look(self) -> int:
        """Returns how many runs were submitted."""
        await self._read_changes()
        if self._store.room.is_low:
            return 0  # they stay due; when there is room, the latest instant of each is used
        now = clock.now()
        due = sorted((at, schedule_id) for schedule_id, at in self._next_at.items() if at <= now)
        some = [schedule_id for _, schedule_id in due[:SCHEDULES_AT_ONCE]]
        return await self._isolation.each(some, lambda one: self._try_begin(one, now), key=str)

    async def _read_changes(self) -> None:
        for changed in await self._store.schedules.changed_after(self._seen):
            self._seen = max(self._seen, changed.revision)
            if changed.schedule is None or changed.schedule.next_at is None:
                self._next_at.pop(changed.schedule_id, None)
            else:
                self._next_at[changed.schedule_id] = changed.schedule.next_at

    async def _try_begin(self, schedule_id: str, now: float) -> bool:
        try:
            return await self._begin(schedule_id, now)
        except WrongSequence:
            return False  # another gateway changed it first; the next round reads it again

    async def _begin(self, schedule_id: str, now: float) -> bool:
        stored = await self._store.schedules.get(schedule_id)
        planned_at = latest_due(stored.schedule, now) if stored is not None else None
        if stored is None or planned_at is None:
            return False
        stored = await self._mark(stored, planned_at, now)
        begins_with = await self._store.schedules.begins_with(schedule_id)
        if begins_with is None:
            moved = advance(stored.schedule, now=now, run_id=None, error=NO_WORKFLOW)
            await self._store.schedules.replace(moved, revision=stored.revision)
            return False
        try:
            run_id = await begin_planned(self._store, stored.schedule, begins_with)
        except BrokerRefused as refused:
            await self._note_error(stored, refused, now)
            return False
        moved = advance(stored.schedule, now=now, run_id=run_id)
        await self._store.schedules.replace(moved, revision=stored.revision)
        log.info("scheduled run begun", extra={"schedule_id": schedule_id, "run_id": run_id})
        return True

    async def _mark(self, stored: StoredSchedule, planned_at: float, now: float) -> StoredSchedule:
        """Write the instant whose run is submitted next into the schedule."""
        if stored.schedule.beginning_at is not None:
            return stored  # the gateway that wrote it was stopped, or is submitting the run now
        marked = replace(stored.schedule, next_at=planned_at, beginning_at=planned_at, updated_at=now)
        revision = await self._store.schedules.replace(marked, revision=stored.revision)
        return StoredSchedule(marked, revision)

    async def _note_error(self, stored: StoredSchedule, refused: BrokerRefused, now: float) -> None:
        """The next round tries again; until then the schedule can be deleted."""
        error = refused.public_message
        if stored.schedule.last_error != error:
            fields = {"schedule_id": stored.schedule.schedule_id, "error": refused.message}
            log.warning("a scheduled run could not be begun", extra=fields)
        noted = replace(stored.schedule, last_error=error, beginning_at=None, updated_at=now)
        await self._store.schedules.replace(noted, revision=stored.revision)
