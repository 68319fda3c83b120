"""Erases runs that ended longer ago than the retention period.

Off by default. The list of runs shows which runs are due, those that changed longest ago first, and when to
look again. Only runs that have ended are erased, and the log decides whether a run has.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyoco_server.clock import elapsed
from pyoco_server.errors import Conflict, NotFound, Unavailable
from pyoco_server.housekeeping.isolation import sum_of_all
from pyoco_server.operations.runs.erase import erase_run
from pyoco_server.read_model.housekeeping_queries import EndedRun
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import capture_error, count_failure

log = logging.getLogger(__name__)

# The rest is erased in the next round, a second later, so that erasing does not occupy the broker.
RUNS_AT_ONCE = 500
SIDE_BY_SIDE = 16
LOOK_EVERY_SEC_MAX = 3600.0
# A run that could not be erased is skipped for this long.
SKIP_SEC = 600.0
SKIPPED_MAX = 20_000
BY = "retention"


class OldRuns:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._kept_sec = store.config.run_history_sec
        self._look_at = float("-inf")
        # Runs that could not be erased, and until when they are skipped.
        self._skipped: dict[str, float] = {}

    async def look(self) -> int:
        """Returns how many runs were erased."""
        if not self._kept_sec or elapsed() < self._look_at:
            return 0
        now = await self._store.clock.now()
        oldest = self._oldest()
        due = [run.run_id for run in oldest[:RUNS_AT_ONCE] if run.updated_at + self._kept_sec <= now]
        erased = await self._erase_all(due)
        if erased:
            log.info("old runs erased", extra={"runs": erased, "kept_sec": self._kept_sec})
        self._look_at = elapsed() + self._next_in_sec(oldest[len(due) :], now)
        return erased

    def _oldest(self) -> list[EndedRun]:
        """Those that changed longest ago first, without those that are skipped."""
        now = elapsed()
        self._skipped = {run_id: until for run_id, until in self._skipped.items() if until > now}
        found = self._read_model.housekeeping.oldest_ended(RUNS_AT_ONCE + 1 + len(self._skipped))
        return [run for run in found if run.run_id not in self._skipped][: RUNS_AT_ONCE + 1]

    def _next_in_sec(self, later: Sequence[EndedRun], now: float) -> float:
        soonest = min((run.updated_at + self._kept_sec - now for run in later), default=self._kept_sec)
        return min(max(0.0, soonest), LOOK_EVERY_SEC_MAX)

    async def _erase_all(self, run_ids: Sequence[str]) -> int:
        """Several at a time. After an Unavailable the remaining runs are due in the next look."""
        waiting = iter(run_ids)

        async def erase_some() -> int:
            return sum([await self._erase(run_id) for run_id in waiting])

        return await sum_of_all(erase_some() for _ in range(min(SIDE_BY_SIDE, len(run_ids))))

    async def _erase(self, run_id: str) -> bool:
        """False if another process was faster, if the list is not current, or after a defect."""
        with capture_error() as step:
            await erase_run(self._store, run_id, by=BY, tenant_id=None)
        if step.error is None:
            return True
        if isinstance(step.error, Unavailable):
            raise step.error
        if not isinstance(step.error, NotFound | Conflict):
            count_failure("housekeeping.old runs")
            log.error("a run cannot be erased", exc_info=step.error, extra={"run_id": run_id})
        if len(self._skipped) < SKIPPED_MAX:
            self._skipped[run_id] = elapsed() + SKIP_SEC
        return False
