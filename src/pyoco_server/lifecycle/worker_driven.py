"""Reports of the worker that holds a run, as events. `decide.py` has checked that it holds the run."""

from typing import assert_never

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decision import Decision, Reason, Refused
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TaskStatus


def report(run: Run, command: c.WorkerCommand, at: float) -> Decision:
    match command:
        case c.PutTaskWaiting() if _has_wait(run, command):
            return ()
        case c.ParkRun() if not _only_waits(run, command):
            return Refused(Reason.NOT_WAITING)
        case _:
            return (event_of(command, at, run.claim.worker_id if run.claim else None),)


def event_of(command: c.WorkerCommand, at: float, worker_id: str | None) -> e.Event:
    """What a report becomes if it is accepted. `at`: the instant of a report that has none."""
    match command:
        case c.SucceedTask():
            return _succeeded(command)
        case c.StartTask():
            return _started(command, at, worker_id)
        case c.PlanTasks():
            return _planned(command, at)
        case c.FailTask():
            return _failed(command)
        case c.SkipTask():
            return e.TaskCancelled(at=_instant(command.skipped_at, at), task=command.task)
        case c.PutTaskWaiting():
            return _waiting(command, at)
        case c.ParkRun():
            return e.RunParked(at=at)
        case c.CompleteRun():
            return e.RunCompleted(at=at, notices=command.notices)
        case c.FailRun():
            return _run_failed(command, at)
        case _:
            assert_never(command)


def _only_waits(run: Run, command: c.ParkRun) -> bool:
    """An answer that came before the park has created no job: the parked run would never continue."""
    # RUNNING tasks are not checked here: the task of a loop is RUNNING while its iterations wait.
    unanswered = (run.tasks.get(task) for task in command.waiting)
    return bool(command.waiting) and all(one and one.state is TaskStatus.WAITING for one in unanswered)


def _has_wait(run: Run, command: c.PutTaskWaiting) -> bool:
    """The wait is recorded by an earlier claim, and keeps its deadline; or it has already ended."""
    record = run.tasks.get(command.task)
    if record is None:
        return False
    if record.state.is_finished or command.attempt < record.attempt:
        return True
    return record.wait is not None and record.wait.key == command.wait_key


def _started(command: c.StartTask, at: float, worker_id: str | None) -> e.TaskStarted:
    return e.TaskStarted(
        at=_instant(command.started_at, at),
        task=command.task,
        attempt=command.attempt,
        inputs=command.inputs,
        worker_id=worker_id,
    )


def _succeeded(command: c.SucceedTask) -> e.TaskSucceeded:
    return e.TaskSucceeded(
        at=command.ended_at,
        task=command.task,
        attempt=command.attempt,
        started_at=command.started_at,
        output=command.output,
        kept=command.kept,
        types=command.types,
    )


def _failed(command: c.FailTask) -> e.TaskFailed:
    return e.TaskFailed(
        at=command.ended_at,
        task=command.task,
        attempt=command.attempt,
        started_at=command.started_at,
        error=command.error,
        traceback=command.traceback,
        will_retry=command.will_retry,
    )


def _run_failed(command: c.FailRun, at: float) -> e.RunFailed:
    return e.RunFailed(
        at=at, reason=command.reason, error=command.error, task=command.task, notices=command.notices
    )


def _waiting(command: c.PutTaskWaiting, at: float) -> e.TaskWaiting:
    return e.TaskWaiting(
        at=_instant(command.waiting_since, at),
        task=command.task,
        attempt=command.attempt,
        wait_key=command.wait_key,
        prompt=command.prompt,
        deadline_at=command.deadline_at,
        on_timeout=command.on_timeout,
    )


def _planned(command: c.PlanTasks, at: float) -> e.TasksPlanned:
    return e.TasksPlanned(
        at=_instant(command.planned_at, at),
        tasks=command.tasks,
        last=command.last,
        needs=command.needs,
        any_of=command.any_of,
    )


def _instant(reported: float | None, at: float) -> float:
    """When it happened, if the worker reports that. `at` is the time of the commit."""
    return at if reported is None else reported
