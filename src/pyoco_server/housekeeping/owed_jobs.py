"""Runs that wait for a worker and have no job in the queue: the publish was lost, or the message is worn out.

A run is given a new job when it has owed one for long, and again after twice as long; and only where that
can help: nothing waits at its tag's consumer, so its job is not simply standing in a line.
"""

from __future__ import annotations

import logging
import time

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import ConfirmCancelled, RequeueRun
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.apply import apply
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

RUNS_AT_ONCE = 200
DOUBLINGS_MAX = 6


class OwedJobs:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._after_sec = store.config.owed_job_after_sec
        self._given: dict[str, int] = {}

    async def look(self) -> int:
        now = time.time()
        owed = self._read_model.owed(before=now - self._after_sec, limit=RUNS_AT_ONCE)
        self._given = {run.run_id: self._given.get(run.run_id, 0) for run in owed}
        idle: dict[str, bool] = {}
        count = 0
        for run in owed:
            if not self._is_due(run, now):
                continue
            if run.tag not in idle:
                idle[run.tag] = not await self._store.queue.waiting(run.tag)
            count += idle[run.tag] and await self._give(run)
        return count

    async def conclude_stuck_cancels(self) -> int:
        """Asked to stop and held by nobody: only a commit by hand, or a bug, leaves a run so. End it."""
        stuck = self._read_model.stuck_cancels(RUNS_AT_ONCE)
        for run in stuck:
            await apply(self._store, run.run_id, ConfirmCancelled())
        return len(stuck)

    def _is_due(self, run: Run, now: float) -> bool:
        waited = now - (run.job_owed_since or now)
        return waited >= self._after_sec * float(1 << min(self._given[run.run_id], DOUBLINGS_MAX))

    async def _give(self, run: Run) -> bool:
        try:
            applied = await apply(
                self._store, run.run_id, RequeueRun(job_no=run.job_no, reason="its job was overdue")
            )
        except Unavailable:
            return False
        self._given[run.run_id] += 1
        if applied.events:
            log.warning("overdue run queued again", extra={"run_id": run.run_id, "tag": run.tag})
        return bool(applied.events)
