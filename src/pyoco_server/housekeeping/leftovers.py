"""Removes what runs leave behind, when no process writes for the run any more.

A note names a run that was erased, or that may have objects that no log refers to. Schedules whose creation
or deletion was interrupted are removed too.
"""

from __future__ import annotations

import asyncio
import logging

from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.operations.runs.leftovers import clear_up
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# The rest is cleared in the next round.
RUNS_AT_ONCE = 500
LOOK_EVERY_SEC = 5.0
# An upload, a log line or a snapshot that was on its way when the run ended has arrived by then.
SETTLED_SEC = 60.0
# To copy the results for a retry takes seconds, but the gateway may have been paused.
NOT_BEGUN_SEC = 3600.0
SCHEDULES_EVERY_SEC = 3600.0
# The two writes that create a schedule take milliseconds. After this long the gateway was interrupted.
HALF_MADE_SEC = 600.0


class LeftOvers:
    def __init__(
        self,
        store: Store,
        *,
        settled_sec: float = SETTLED_SEC,
        half_made_sec: float = HALF_MADE_SEC,
        not_begun_sec: float = NOT_BEGUN_SEC,
    ) -> None:
        self._store = store
        self._settled_sec = settled_sec
        self._not_begun_sec = not_begun_sec
        self._half_made_sec = half_made_sec
        self._isolation = Isolation("leftovers")
        self._look_at = self._schedules_at = float("-inf")

    async def look(self) -> int:
        """Returns for how many runs the leftovers were removed."""
        now = asyncio.get_running_loop().time()
        if now >= self._schedules_at:
            await self._store.schedules.remove_half_made(older_than_sec=self._half_made_sec)
            self._schedules_at = now + SCHEDULES_EVERY_SEC
        if now < self._look_at:
            return 0
        noted = await self._store.leftovers.oldest(RUNS_AT_ONCE)
        due = [one for one in noted if one.age_sec >= self._settled_sec]
        cleared = await self._isolation.each_run(
            due, lambda one: clear_up(self._store, one, not_begun_sec=self._not_begun_sec)
        )
        if cleared:
            log.info("leftovers of runs removed", extra={"runs": cleared})
        self._look_at = now if len(due) == RUNS_AT_ONCE else now + LOOK_EVERY_SEC
        return cleared
