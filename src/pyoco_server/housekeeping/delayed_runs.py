"""Runs that were to start later: each gets its first job when its time has come."""

from __future__ import annotations

import time

from pyoco_server.lifecycle.commands import RequeueRun
from pyoco_server.operations.apply import apply
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

# What is left starts in the next round, a second later.
RUNS_AT_ONCE = 500


async def start_delayed(store: Store, read_model: ReadModel) -> int:
    due = read_model.delayed(until=time.time(), limit=RUNS_AT_ONCE)
    for run in due:
        # A commit that raises the job's number: whoever tries it a second time is refused.
        await apply(store, run.run_id, RequeueRun(job_no=run.job_no, reason="start_at"))
    return len(due)
