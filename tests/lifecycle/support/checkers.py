"""What must hold of every step a run takes, as functions that name what does not hold.

A step is looked at with a memory of its own (`Seen`): whether a cancel was asked of a live run, and what
had succeeded by then. So nothing here relies on the run remembering its cancel.
"""

from typing import NamedTuple

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Decision, Refused
from pyoco_server.lifecycle.run import Run, TaskRecord, owes_job
from pyoco_server.lifecycle.status import Driver, RunStatus, TaskStatus

Tag = e.TagAdded | e.TagRemoved
_MOVABLE = (TaskStatus.READY, TaskStatus.RUNNING, TaskStatus.WAITING)


class Seen(NamedTuple):
    """A state, and what an onlooker remembers of the way to it."""

    run: Run | None
    asked: bool = False
    kept: tuple[tuple[str, TaskRecord], ...] = ()

    def then(self, event: e.Event, after: Run | None) -> "Seen":
        if self.asked or not isinstance(event, e.CancelRequested) or self.run is None or self.run.is_terminal:
            return self._replace(run=after)
        succeeded = ((n, r) for n, r in self.run.tasks.items() if r.state is TaskStatus.SUCCEEDED)
        return Seen(after, asked=True, kept=tuple(succeeded))


def step_violations(before: Seen, event: e.Event, after: Seen) -> list[str]:
    if after.run is None:
        return [] if before.run is None else ["a run vanished"]
    return [
        *_cancel_violations(after.run, after),
        *_terminal_violations(after.run),
        *_wait_violations(after.run),
        *([] if before.run is None else _change_violations(before.run, event, after.run)),
        *([] if before.run is None or not before.asked else _asked_violations(before.run, after.run)),
    ]


def _cancel_violations(run: Run, seen: Seen) -> list[str]:
    if not seen.asked:
        return []
    found = []
    if run.status not in (RunStatus.CANCELLING, RunStatus.CANCELLED):
        found.append(f"{run.status} after a cancel was asked")
    if any(run.tasks.get(name) != record for name, record in seen.kept):
        found.append("a result from before the cancel was lost")
    return found


def _terminal_violations(run: Run) -> list[str]:
    if not run.is_terminal:
        return []
    states = {record.state for record in run.tasks.values()}
    found = [f"a {state} task in a run that is over" for state in states if _is_under_way(state)]
    if run.ended is not RunStatus.COMPLETED and TaskStatus.PENDING in states:
        found.append(f"a PENDING task in a run that is {run.ended}")
    if run.claim is not None or run.parked or run.job_owed_since is not None:
        found.append("a run that is over still binds somebody")
    return found


def _wait_violations(run: Run) -> list[str]:
    """Copies that have left the tasks out know of waits from here alone."""
    open_waits = {name: record.wait for name, record in run.tasks.items() if record.wait}
    return [] if run.waits == open_waits else ["its waits are not those of its tasks"]


def _change_violations(before: Run, event: e.Event, after: Run) -> list[str]:
    found = []
    if after.job_no < before.job_no or after.fence < before.fence:
        found.append("a number that only grows went back")
    if after.updated_at < before.updated_at:
        found.append("updated_at went back")
    if before.is_terminal and after.ended is not before.ended:
        found.append(f"{before.ended} became {after.ended}")
    if before.is_terminal and after != before and not isinstance(event, Tag | e.RunErased | e.RunArchived):
        found.append(f"{type(event).__name__} changed a run that is over")
    if before.gone and after != before:
        found.append("a run that is gone changed")
    if before.cancel is not None and after.cancel != before.cancel:
        found.append("the first cancel request was changed")
    if any(_went_back(record, after.tasks.get(name)) for name, record in before.tasks.items()):
        found.append("a task vanished or its attempt went back")
    return found


def _asked_violations(before: Run, after: Run) -> list[str]:
    """After a cancel request tasks only close: finished ones stay, the others end CANCELLED."""
    found = []
    if set(before.tasks) != set(after.tasks):
        found.append("a task appeared after the cancel")
    for name, record in before.tasks.items():
        now = after.tasks.get(name, record)
        if record.state.is_finished and now != record:
            found.append("a finished task changed after the cancel")
        if not record.state.is_finished and after.is_terminal and now.state is not TaskStatus.CANCELLED:
            found.append(f"an unfinished task became {now.state} by the cancel")
    return found


def decision_violations(seen: Seen, command: c.Command, decision: Decision, after: Run | None) -> list[str]:
    """`after` is what the decision folds into; with a refusal, what was there."""
    if isinstance(decision, Refused):
        return []
    return [
        *_shape_violations(seen, command, decision),
        *_ending_violations(seen.run, command, decision, after),
    ]


def _shape_violations(seen: Seen, command: c.Command, decision: tuple[e.Event, ...]) -> list[str]:
    run, kinds = seen.run, tuple(type(event) for event in decision)
    if run is None or not kinds or kinds in ((e.TagAdded,), (e.TagRemoved,)):
        return []
    said = f"{type(command).__name__} gave {', '.join(kind.__name__ for kind in kinds)}"
    if run.gone:
        return [f"{said} on a run that is gone"]
    if run.is_terminal:
        return [] if kinds in ((e.RunErased,), (e.RunArchived,)) else [f"{said} on a run that is over"]
    if seen.asked and kinds not in ((e.RunCancelled,), (e.RunLost, e.RunCancelled)):
        return [f"{said} after a cancel was asked"]
    return []


_EXPECTED: dict[type[e.Event], RunStatus] = {
    e.RunCompleted: RunStatus.COMPLETED,
    e.RunFailed: RunStatus.FAILED,
    e.RunDiscarded: RunStatus.FAILED,
    e.RunCancelled: RunStatus.CANCELLED,
}


def _ending_violations(
    before: Run | None, command: c.Command, decision: tuple[e.Event, ...], after: Run | None
) -> list[str]:
    """What is decided to be the end, is the end; and what is not, is not."""
    expected = before.ended if before else None
    for event in decision:
        expected = _EXPECTED.get(type(event), expected)
    ended = after.ended if after else None
    if ended is not expected:
        return [f"{type(command).__name__} was to give {expected}, the reducer made it {ended}"]
    return []


def job_violations(before: Run | None, decision: tuple[e.Event, ...], after: Run) -> list[str]:
    """Only for histories that were decided: which commits owe a job, and how it is numbered."""
    found = []
    if owes_job(after) != (after.job_owed_since is not None):
        found.append("job_owed_since and owes_job say different things")
    if before is None:
        return [*found, *([] if after.job_no == 1 else ["the first job is not number 1"])]
    requeued = any(isinstance(event, e.RunRequeued) for event in decision)
    runnable = owes_job(after) and (requeued or not owes_job(before))
    if runnable and after.job_no != before.job_no + 1:
        found.append("a commit made the run runnable without a new job number")
    if not runnable and not after.is_terminal and after.job_no != before.job_no:
        found.append("a new job number although nobody is needed")
    return found


def stuck_violations(run: Run) -> list[str]:
    """A live run has somebody to move it: a claimant, a job that is owed, or a wait to be answered."""
    waiting = any(record.state is TaskStatus.WAITING for record in run.tasks.values())
    if run.driver is Driver.CLIENT and not run.is_terminal:
        movable = run.started_at is None or bool(run.due)
        movable = movable or any(record.state in _MOVABLE for record in run.tasks.values())
        return [] if movable else ["nothing can move this client-driven run"]
    if run.is_terminal or run.claim is not None or owes_job(run) or (run.parked and waiting):
        return []
    return ["nothing can move this run"]


def _is_under_way(state: TaskStatus) -> bool:
    return state in _MOVABLE


def _went_back(record: TaskRecord, later: TaskRecord | None) -> bool:
    return later is None or later.attempt < record.attempt
