"""May this happen, and what happens then? Pure: state and command in, events or a refusal out.

This is the first lock of *cancel wins*: after a cancel request no command makes progress, and the only
end it allows is CANCELLED. (The second lock is in `reduce.py`.) An accepted command with nothing to do
gives no events. Except for `NeedsAllTasks`, nothing here reads what a stored snapshot may leave out (outputs,
finished tasks). Reports of drivers and the effects of time are in files of their own, behind the same lock.
"""

from collections.abc import Iterable
from typing import assert_never

from pyoco_server.lifecycle import client_driven, waits, worker_driven
from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decision import Decision, Events, Reason, Refused
from pyoco_server.lifecycle.reduce import Folding
from pyoco_server.lifecycle.run import Claim, Run, is_expired
from pyoco_server.lifecycle.status import Driver, LossCause

__all__ = [
    "Decision",
    "Events",
    "Reason",
    "Refused",
    "decide",
    "decide_all",
    "decide_and_fold",
    "progress_refused",
]


# The most frequent commands. Checked by type: `isinstance` with a union takes ten times as long.
_TASK_REPORTS: frozenset[type[c.Command]] = frozenset({c.SucceedTask, c.StartTask})


def decide(run: Run | None, command: c.Command, at: float) -> Decision:
    if isinstance(command, c.SubmitRun):
        return Refused(Reason.EXISTS) if run else (command.submission, *command.results)
    if run is None:
        return Refused(Reason.UNKNOWN)
    if run.gone:
        return Refused(Reason.GONE)
    return _decide(run, command, at)


def decide_all(run: Run | None, commands: Iterable[c.Command], at: float) -> Decision:
    """Several commands as one commit, each decided on the state after the last; one refusal refuses all."""
    decided = decide_and_fold(run, commands, at)
    return decided if isinstance(decided, Refused) else decided[0]


def decide_and_fold(
    run: Run | None, commands: Iterable[c.Command], at: float
) -> tuple[Events, Run | None] | Refused:
    """The same, with the resulting state: it was computed to decide, and the caller need not fold again."""
    folding = Folding(run)
    events: list[e.Event] = []
    claim: Claim | None = None  # that has reported what is not folded yet
    reported: list[e.Event] = []
    for command in commands:
        event = None if claim is None else _accept_again(claim, command, at)
        if event is not None:
            reported.append(event)
            events.append(event)
            continue
        folding.add(reported)
        now, claim, reported = folding.unsized, None, []
        decision = decide(now, command, at)
        if isinstance(decision, Refused):
            return decision
        if now is not None and type(command) in _TASK_REPORTS:
            claim = now.claim
        reported += decision
        events += decision
    folding.add(reported)
    return tuple(events), folding.run


def _accept_again(claim: Claim, command: c.Command, at: float) -> e.Event | None:
    """The event of a report of a task, if `_progress` has accepted one of this claim and only such reports
    followed: no start and no success changes the claim, requests a cancel or ends the run.
    """
    match command:
        case c.SucceedTask() | c.StartTask() if command.fence == claim.fence:
            return worker_driven.event_of(command, at, claim.worker_id)
        case _:
            return None


def progress_refused(run: Run) -> Reason | None:
    """Lock one. Progress is for runs that are neither over nor asked to stop."""
    if run.is_terminal:
        return Reason.TERMINAL
    if run.cancel is not None:
        return Reason.CANCEL_REQUESTED
    return None


def _decide(run: Run, command: c.Command, at: float) -> Decision:
    if isinstance(command, c.WorkerCommand):  # first, because these are nearly all commands
        return _progress(run, command, at)
    match command:
        case c.SubmitRun():
            return Refused(Reason.EXISTS)
        case c.CarryResults():
            return _carry(run, command)
        case c.DiscardRun():
            return _discard(run, command, at)
        case c.ClaimRun():
            return _claim(run, command, at)
        case c.ReportLoss():
            return _report_loss(run, command, at)
        case c.RequeueRun():
            return _requeue(run, command, at)
        case c.CancelRun():
            return _cancel(run, command, at)
        case c.ConfirmCancelled():
            return _confirm_cancelled(run, command, at)
        case c.AddTag() | c.RemoveTag() | c.ArchiveRun() | c.EraseRun():
            return _edit(run, command, at)
        case c.StartRun() | c.ResumeTask() | c.PassTime():
            return _move_on(run, command, at)
        case c.TakeTask() | c.ReportProgress() | c.PutWaiting() | c.SucceedClientTask() | c.FailClientTask():
            return _drive(run, command, at)
        case _:
            assert_never(command)


def _edit(run: Run, command: c.AddTag | c.RemoveTag | c.ArchiveRun | c.EraseRun, at: float) -> Decision:
    """Changes that do not affect the execution: tags of any run, archiving and erasing of an ended run."""
    match command:
        case c.AddTag():
            return _add_tag(run, command, at)
        case c.RemoveTag():
            return (e.TagRemoved(at=at, tag=command.tag),) if command.tag in run.tags else ()
        case _ if not run.is_terminal:
            return Refused(Reason.NOT_TERMINAL)
        case c.ArchiveRun():
            return () if run.archived else (e.RunArchived(at=at, by=command.by),)
        case c.EraseRun():
            return (e.RunErased(at=at, by=command.by),)
        case _:
            assert_never(command)


def _carry(run: Run, command: c.CarryResults) -> Decision:
    """Only before the run starts: a worker that has claimed it reports these tasks itself."""
    if refused := _untouched_refused(run):
        return Refused(refused)
    return tuple(command.results)


def _discard(run: Run, command: c.DiscardRun, at: float) -> Decision:
    if refused := _untouched_refused(run):
        return Refused(refused)
    return (e.RunDiscarded(at=at, reason=command.reason),)


def _untouched_refused(run: Run) -> Reason | None:
    if refused := progress_refused(run):
        return refused
    return Reason.CLAIMED if run.started_at is not None else None


def _job_refused(run: Run, job_no: int) -> Reason | None:
    """A job is valid for a run that waits for a worker, and only if it is the newest job."""
    if refused := progress_refused(run):
        return refused
    if run.driver is not Driver.WORKER:
        return Reason.WRONG_DRIVER
    if job_no != run.job_no:
        return Reason.OTHER_JOB
    if run.parked:
        return Reason.PARKED
    return Reason.CLAIMED if run.claim is not None else None


def _claim(run: Run, command: c.ClaimRun, at: float) -> Decision:
    if refused := _job_refused(run, command.job_no):
        return Refused(refused)
    if is_expired(run, at):
        return Refused(Reason.EXPIRED)
    claimed = e.RunClaimed(
        at=at, worker_id=command.worker_id, instance_id=command.instance_id, fence=run.fence + 1
    )
    return (claimed,)


def _report_loss(run: Run, command: c.ReportLoss, at: float) -> Decision:
    if run.is_terminal:
        return Refused(Reason.TERMINAL)
    if run.claim is None or run.claim.fence != command.fence:
        return Refused(Reason.FENCED)
    lost = e.RunLost(at=at, fence=command.fence, cause=command.cause, detail=command.detail)
    if run.cancel is not None:
        return (lost, e.RunCancelled(at=at))
    if ending := _worn_out(run, command, at):
        return (lost, ending)
    return (lost,)


def _worn_out(run: Run, command: c.ReportLoss, at: float) -> e.RunFailed | None:
    detail = f": {command.detail}" if command.detail else ""
    if command.cause is LossCause.WORKER_LOST and run.losses + 1 >= command.losses_max:
        error = f"lost {run.losses + 1} workers{detail}"
        return e.RunFailed(at=at, reason="max_deliver", error=error)
    if command.cause is LossCause.SLOT_CRASHED and run.crashes + 1 >= command.crashes_max:
        error = f"crashed its process {run.crashes + 1} times{detail}"
        return e.RunFailed(at=at, reason="execution_error", error=error)
    return None


def _requeue(run: Run, command: c.RequeueRun, at: float) -> Decision:
    if refused := _job_refused(run, command.job_no):
        return Refused(refused)
    return (e.RunRequeued(at=at, reason=command.reason),)


def _move_on(run: Run, command: c.StartRun | c.ResumeTask | c.PassTime, at: float) -> Decision:
    """Commands of any caller, or of time alone, for runs of both drivers."""
    if isinstance(command, c.ResumeTask) and command.task not in run.tasks:
        return Refused(Reason.UNKNOWN_TASK)
    if refused := progress_refused(run):
        return Refused(refused)
    match command:
        case c.StartRun():
            begins = run.driver is Driver.CLIENT and run.started_at is None
            return client_driven.start(run, at) if begins else ()
        case c.ResumeTask():
            return waits.resume(run, command, at)
        case c.PassTime():
            return waits.pass_time(run, at)
        case _:
            assert_never(command)


def _drive(run: Run, command: c.ClientCommand, at: float) -> Decision:
    """An unknown task is refused first: no later state of the run can contain it."""
    if command.task not in run.tasks:
        return Refused(Reason.UNKNOWN_TASK)
    if refused := progress_refused(run):
        return Refused(refused)
    if run.driver is not Driver.CLIENT:
        return Refused(Reason.WRONG_DRIVER)
    return client_driven.decide_task(run, command, at)


def _cancel(run: Run, command: c.CancelRun, at: float) -> Decision:
    """Always accepted. If no worker has to stop first, the run ends in the same commit."""
    if run.is_terminal or run.cancel is not None:
        return ()
    asked = e.CancelRequested(at=at, by=command.by, reason=command.reason)
    return (asked,) if run.claim is not None else (asked, e.RunCancelled(at=at))


def _confirm_cancelled(run: Run, command: c.ConfirmCancelled, at: float) -> Decision:
    if run.is_terminal:
        return ()
    if run.cancel is None:
        return Refused(Reason.NO_CANCEL_REQUESTED)
    holder = run.claim.fence if run.claim else None
    if holder != command.fence:
        return Refused(Reason.CLAIMED if command.fence is None else Reason.FENCED)
    return (e.RunCancelled(at=at),)


def _add_tag(run: Run, command: c.AddTag, at: float) -> Decision:
    if command.tag in run.tags:
        return ()
    if len(run.tags) >= command.tags_max:
        return Refused(Reason.TOO_MANY_TAGS)
    return (e.TagAdded(at=at, tag=command.tag),)


def _progress(run: Run, command: c.WorkerCommand, at: float) -> Decision:
    if run.claim is None or run.claim.fence != command.fence:
        return Refused(Reason.TERMINAL if run.is_terminal else Reason.FENCED)
    if refused := progress_refused(run):
        return Refused(refused)
    return worker_driven.report(run, command, at)
