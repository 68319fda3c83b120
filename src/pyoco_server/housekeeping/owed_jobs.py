"""Runs that wait for a worker and have no job in the queue: the publish was lost, or the message is worn out.

A run is given a new job when it has owed one for long, and again after twice as long; and only where that
can help: nothing waits at its tag's consumer, so its job is not simply standing in a line.
"""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import ConfirmCancelled, RequeueRun
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.apply import apply
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

RUNS_AT_ONCE = 200
DOUBLINGS_MAX = 6


class _Given(NamedTuple):
    """How many jobs a run was given in a row, and when the last."""

    times: int
    at: float


class OwedJobs:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._after_sec = store.config.owed_job_after_sec
        self._given: dict[str, _Given] = {}

    async def look(self) -> int:
        """By tag, so that a crowd of runs nobody serves does not stand before everybody else's."""
        now = time.time()
        owed = {
            tag: self._read_model.owed(tag, before=now - self._after_sec, limit=RUNS_AT_ONCE)
            for tag in self._read_model.tags_that_owe()
        }
        self._forget_all_but([run for runs in owed.values() for run in runs], now)
        return sum([await self._look_at(tag, runs, now) for tag, runs in owed.items()])

    async def _look_at(self, tag: str, runs: list[Run], now: float) -> int:
        due = [run for run in runs if self._is_due(run, now)]
        # A tag that nobody has ever asked for has no consumer: its jobs lie there and wait.
        if not due or await self._store.queue.waiting(tag) != 0:
            return 0
        return sum([await self._give(run, now) for run in due])

    async def conclude_stuck_cancels(self) -> int:
        """Asked to stop and held by nobody: only a commit by hand, or a bug, leaves a run so. End it."""
        stuck = self._read_model.stuck_cancels(RUNS_AT_ONCE)
        for run in stuck:
            await apply(self._store, run.run_id, ConfirmCancelled())
        return len(stuck)

    def _forget_all_but(self, owed: list[Run], now: float) -> None:
        """A run that was just given a job is not overdue, and owes all the same: it is kept in mind."""
        overdue = {run.run_id for run in owed}
        self._given = {
            run_id: given
            for run_id, given in self._given.items()
            if run_id in overdue or now - given.at <= self._after_sec
        }

    def _is_due(self, run: Run, now: float) -> bool:
        waited = now - (run.job_owed_since or now)
        times = self._given[run.run_id].times if run.run_id in self._given else 0
        return waited >= self._after_sec * float(1 << min(times, DOUBLINGS_MAX))

    async def _give(self, run: Run, now: float) -> bool:
        try:
            applied = await apply(
                self._store, run.run_id, RequeueRun(job_no=run.job_no, reason="its job was overdue")
            )
        except Unavailable:
            return False
        before = self._given.get(run.run_id)
        self._given[run.run_id] = _Given(before.times + 1 if before else 1, now)
        if applied.events:
            log.warning("overdue run queued again", extra={"run_id": run.run_id, "tag": run.tag})
        return bool(applied.events)
