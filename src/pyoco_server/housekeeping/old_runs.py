"""Runs that have been over for as long as they are to be kept: they are erased, with all that is theirs.

Off unless it is asked for. What is due is known from the list of runs, the longest unchanged first; when the
first of them is due says when to look again. Only what is over can be erased, and the log decides that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pyoco_server.clock import elapsed
from pyoco_server.errors import Conflict, NotFound, Unavailable
from pyoco_server.operations.runs.erase import erase_run
from pyoco_server.read_model.housekeeping_queries import Over
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import count_failure

log = logging.getLogger(__name__)

# What is left is erased in the next round, a second later; others want the broker too.
RUNS_AT_ONCE = 500
SIDE_BY_SIDE = 16
LOOK_EVERY_SEC_MAX = 3600.0
# A run that the list shows as over and the log does not is tried again after this long. The others go on.
IN_VAIN_SEC = 600.0
IN_VAIN_MAX = 20_000
BY = "retention"


class OldRuns:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._kept_sec = store.config.run_history_sec
        self._look_at = float("-inf")
        # Runs that could not be erased, and until when they are passed over.
        self._in_vain: dict[str, float] = {}

    async def look(self) -> int:
        """How many were erased."""
        if not self._kept_sec or elapsed() < self._look_at:
            return 0
        now = await self._store.clock.now()
        oldest = self._oldest()
        due = [run.run_id for run in oldest[:RUNS_AT_ONCE] if run.updated_at + self._kept_sec <= now]
        erased = await self._erase_all(due)
        if erased:
            log.info("runs are kept no more", extra={"runs": erased, "kept_sec": self._kept_sec})
        self._look_at = elapsed() + self._next_in_sec(oldest[len(due) :], now)
        return erased

    def _oldest(self) -> list[Over]:
        """The longest unchanged first, without those that were tried in vain a short time ago."""
        now = elapsed()
        self._in_vain = {run_id: until for run_id, until in self._in_vain.items() if until > now}
        found = self._read_model.housekeeping.oldest_over(RUNS_AT_ONCE + 1 + len(self._in_vain))
        return [run for run in found if run.run_id not in self._in_vain][: RUNS_AT_ONCE + 1]

    def _next_in_sec(self, later: Sequence[Over], now: float) -> float:
        soonest = min((run.updated_at + self._kept_sec - now for run in later), default=self._kept_sec)
        return min(max(0.0, soonest), LOOK_EVERY_SEC_MAX)

    async def _erase_all(self, run_ids: Sequence[str]) -> int:
        """A few at a time, all to their end. After an Unavailable the rest is due the next time too."""
        waiting = iter(run_ids)

        async def erase_some() -> int:
            return sum([await self._erase(run_id) for run_id in waiting])

        ended = await asyncio.gather(
            *(erase_some() for _ in range(min(SIDE_BY_SIDE, len(run_ids)))), return_exceptions=True
        )
        for trouble in ended:
            if isinstance(trouble, BaseException):
                raise trouble
        return sum(count for count in ended if isinstance(count, int))

    async def _erase(self, run_id: str) -> bool:
        """False if another process was faster, or if the list is wrong: the log is right."""
        try:
            await erase_run(self._store, run_id, by=BY, tenant_id=None)
        except (NotFound, Conflict):
            self._pass_over(run_id)
            return False
        except Unavailable:
            raise
        except Exception:  # a defect of one run; the others must get their turn
            count_failure("housekeeping.old runs")
            log.exception("a run cannot be erased", extra={"run_id": run_id})
            self._pass_over(run_id)
            return False
        return True

    def _pass_over(self, run_id: str) -> None:
        if len(self._in_vain) < IN_VAIN_MAX:
            self._in_vain[run_id] = elapsed() + IN_VAIN_SEC
