"""Runs with a `start_at`: each gets its first job at that instant."""

from __future__ import annotations

from pyoco_server import clock
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.lifecycle.commands import RequeueRun
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store

# The rest starts in the next round, a second later.
RUNS_AT_ONCE = 500


class DelayedRuns:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._isolation = Isolation("delayed runs")

    async def look(self) -> int:
        """Returns how many runs were started."""
        due = self._read_model.housekeeping.delayed(until=clock.now(), limit=RUNS_AT_ONCE)
        return await self._isolation.each_run(due, self._start)

    async def _start(self, run: Run) -> bool:
        # The commit raises the number of the job, so a second try is refused.
        applied = await apply(self._store, run.run_id, RequeueRun(job_no=run.job_no, reason="start_at"))
        return bool(applied.events)
