"""Publishes a new job for runs that wait for a worker and have no job in the queue.

The publish was lost, or the message has used up its deliveries. A run gets a new job when it has owed one for
`owed_job_after_sec`, and again after twice as long, unless its job is still queued.

If no message waits at the consumer of its tag, the job is not queued. Otherwise the order decides. The broker
delivers the messages of a tag in the order in which it stored them. A job is published right after the commit
that makes the run owe it (`job_owed_since`). A publish that takes longer than `owed_job_after_sec` has
failed. So if the next message in the queue was stored later than that, the job of the run is not queued
behind it. This takes two requests for a tag, at any length of the queue.

A job that is not queued was lost, or it was delivered and not acknowledged: a worker has it, or the broker
delivers it again before all queued messages. A new job would be the last in the queue and would void the old
one. So the run gets one only if it is still unclaimed `owed_job_after_sec` after that was first seen, and not
before an unacknowledged delivery would be repeated (`consumer_ack_wait_sec`). Nothing is executed twice: the
commit that creates the new job raises the job number, and a delivery with another number is acknowledged
unexecuted.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.lifecycle.commands import ConfirmCancelled, RequeueRun
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.queue.jobs import QueueState
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

RUNS_AT_ONCE = 200
DOUBLINGS_MAX = 6


class _Given(NamedTuple):
    """How many new jobs a run got in a row, and when it got the last one."""

    times: int
    at: float


class OwedJobs:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._after_sec = store.config.owed_job_after_sec
        self._given: dict[str, _Given] = {}
        self._patience_sec = max(self._after_sec, store.config.consumer_ack_wait_sec)
        # Since when (`elapsed`) the next message in the queue is younger than the job of this run.
        self._passed_since: dict[str, float] = {}
        self._isolation = Isolation("owed jobs")
        self._cancels = Isolation("stuck cancels")

    async def look(self) -> int:
        """Works by tag, so that many runs of a tag without workers do not delay the runs of other tags."""
        now = clock.now()
        owed = {
            tag: self._read_model.housekeeping.owed(tag, before=now - self._after_sec, limit=RUNS_AT_ONCE)
            for tag in self._read_model.housekeeping.tags_that_owe()
        }
        self._forget_all_but([run for runs in owed.values() for run in runs], now)
        return sum([await self._look_at(tag, runs, now) for tag, runs in owed.items()])

    async def _look_at(self, tag: str, runs: list[Run], now: float) -> int:
        due = [run for run in runs if self._is_due(run, now)]
        line = await self._store.queue.state(tag) if due else None
        # A tag that no worker has ever served has no consumer, and its jobs stay in the queue.
        if line is None:
            return 0
        if line.waiting:
            due = [run for run in due if self._was_passed(run, line)]
        return await self._isolation.each_run(due, lambda run: self._give(run, now))

    async def conclude_stuck_cancels(self) -> int:
        """End a CANCELLING run that no worker holds. Only a manual commit or a bug leaves one."""
        stuck = self._read_model.housekeeping.stuck_cancels(RUNS_AT_ONCE)
        return await self._cancels.each_run(stuck, self._conclude)

    async def _conclude(self, run: Run) -> bool:
        return bool((await apply(self._store, run.run_id, ConfirmCancelled())).events)

    def _forget_all_but(self, owed: list[Run], now: float) -> None:
        """A run that just got a job is not overdue, but still owes one: it is not forgotten."""
        overdue = {run.run_id for run in owed}
        self._given = {
            run_id: given
            for run_id, given in self._given.items()
            if run_id in overdue or now - given.at <= self._after_sec
        }
        self._passed_since = {run_id: at for run_id, at in self._passed_since.items() if run_id in overdue}

    def _was_passed(self, run: Run, line: QueueState) -> bool:
        """The job of this run is not queued, and for so long that no delivery of it is expected any more."""
        in_line_by = (run.job_owed_since or 0.0) + self._after_sec
        if line.next_stored_at is None or line.next_stored_at <= in_line_by:
            self._passed_since.pop(run.run_id, None)
            return False
        return elapsed() - self._passed_since.setdefault(run.run_id, elapsed()) >= self._patience_sec

    def _is_due(self, run: Run, now: float) -> bool:
        waited = now - (run.job_owed_since or now)
        times = self._given[run.run_id].times if run.run_id in self._given else 0
        return waited >= self._after_sec * float(1 << min(times, DOUBLINGS_MAX))

    async def _give(self, run: Run, now: float) -> bool:
        requeue = RequeueRun(job_no=run.job_no, reason="its job was overdue")
        applied = await apply(self._store, run.run_id, requeue)
        before = self._given.get(run.run_id)
        self._given[run.run_id] = _Given(before.times + 1 if before else 1, now)
        self._passed_since.pop(run.run_id, None)
        if applied.events:
            log.warning("overdue run queued again", extra={"run_id": run.run_id, "tag": run.tag})
        return bool(applied.events)
