"""What is left to do for a run that has begun: the rest of the results it takes over, and its first job.

An earlier try of the same submission may have got anywhere: then what the log has counts, and not what we
would have written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pyoco_server.lifecycle.commands import CarryResults
from pyoco_server.lifecycle.events import RunSubmitted, TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.run import Run, is_delayed, owes_job
from pyoco_server.lifecycle.status import TaskStatus
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store

Carried = Sequence[TaskStarted | TaskSucceeded]


async def carry_on(store: Store, stored: StoredRun, results: Carried) -> StoredRun:
    """Refused once somebody has claimed or cancelled it: then the rest is executed, or nothing is."""
    applied = await apply(store, stored.run.run_id, CarryResults(results=list(results)), held=stored)
    return applied.after or stored


def is_of_another_try(stored: StoredRun, submission: RunSubmitted) -> bool:
    return stored.commits > 1 or stored.run.submitted_at != submission.at


async def go_on(store: Store, stored: StoredRun, carried: Iterable[Carried]) -> StoredRun:
    """Bring what another try of the same began to where a submission ends."""
    stored = await store.runs.snapshots.project(stored)
    for results in carried:
        if left := [event for event in results if not _is_there(stored.run, event)]:
            stored = await carry_on(store, stored, left)
    if stored.run.job_no == 1 and owes_job(stored.run) and not is_delayed(stored.run):
        submission = await store.runs.submission(stored.run.run_id)
        assert submission is not None, "a run that owes a job has begun"
        # It may have moved on: whoever gets the job has to read.
        await store.queue.publish(submission, replace(stored, log_seq=0))
    return stored


def _is_there(run: Run, event: TaskStarted | TaskSucceeded) -> bool:
    known = run.tasks.get(event.task)
    if isinstance(event, TaskStarted):
        return known is not None
    return known is not None and known.state is TaskStatus.SUCCEEDED
