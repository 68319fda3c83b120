"""Runs that a client drives: which commands a task accepts, and what follows from its end.

The task's state and the graph decide. `decide.py` has checked before that the run may make progress at all
(lock one of *cancel wins*). These functions need the whole run: every task, and the graph.
"""

from typing import assert_never

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decision import Decision, Draft, Events, Reason, Refused
from pyoco_server.lifecycle.graph import Graph, GraphTask, TaskKind, task_of
from pyoco_server.lifecycle.joins import Following, after_the_end, at_the_start, failed_by, is_over
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import TaskStatus

RUN_ERROR = "execution_error"
_UNDER_WAY = (TaskStatus.RUNNING, TaskStatus.WAITING)


def start(run: Run, at: float) -> Events:
    draft = Draft(run, at)
    draft.add(e.RunStarted(at=at))
    _continue(draft, at_the_start(graph_of(run), run.tasks))
    return draft.events


def decide_task(run: Run, command: c.ClientCommand, at: float) -> Decision:
    task = task_of(run.graph, command.task)
    if task is None:
        return Refused(Reason.UNKNOWN_TASK)
    record = run.tasks[task.id]
    if isinstance(command, c.TakeTask):
        return _take(task, record, command, at)
    allowed = _UNDER_WAY if isinstance(command, c.SucceedClientTask | c.FailClientTask) else _UNDER_WAY[:1]
    if record.state not in allowed:
        return Refused(Reason.TASK_STATUS)
    return _work_on(Draft(run, at), task, record, command)


def ready(draft: Draft, task: GraphTask) -> None:
    """A client may take the task. A wait is not taken: it begins at once."""
    draft.add(e.TaskReadied(at=draft.at, task=task.id))
    if task.type is TaskKind.WAIT:
        attempt = draft.run.tasks[task.id].attempt + 1
        draft.add(_waiting(draft, task, attempt, task.wait_key or task.id, task.prompt))


def succeed(draft: Draft, task: str, output: object) -> None:
    record = draft.run.tasks[task]
    draft.add(
        e.TaskSucceeded(
            at=draft.at, task=task, attempt=record.attempt, started_at=_began(draft, record), output=output
        )
    )
    _follow(draft, task)


def fail(draft: Draft, task: GraphTask, code: str, error: str, *, final: bool = False) -> None:
    """Fail this attempt. Unless it is `final` or the last one, the next attempt follows after the backoff."""
    record = draft.run.tasks[task.id]
    again = not final and record.attempt < task.retry.max_attempts
    pause_sec = task.retry.after_sec(record.attempt) if again else 0.0
    draft.add(
        e.TaskFailed(
            at=draft.at,
            task=task.id,
            attempt=record.attempt,
            started_at=_began(draft, record),
            error=error,
            code=code,
            will_retry=again,
            retry_at=draft.at + pause_sec if pause_sec else None,
        )
    )
    if not again:
        _follow(draft, task.id)
    elif not pause_sec:
        ready(draft, task)


def graph_of(run: Run) -> Graph:
    assert run.graph is not None, "a client-driven run has a graph"
    assert run.graph.nodes, "and the graph has its tasks"
    return run.graph


def _take(task: GraphTask, record: TaskRecord, command: c.TakeTask, at: float) -> Decision:
    if record.state is not TaskStatus.READY:
        is_theirs = record.state is TaskStatus.RUNNING and record.worker_id == command.worker_id
        is_again = is_theirs and record.attempt == command.attempt
        return () if is_again else Refused(Reason.TASK_STATUS)
    if command.attempt != record.attempt + 1:
        return Refused(Reason.ATTEMPT)
    deadline_at = None if task.timeout_sec is None else at + task.timeout_sec
    taken = e.TaskStarted(
        at=at, task=task.id, attempt=command.attempt, worker_id=command.worker_id, deadline_at=deadline_at
    )
    return (taken,)


def _work_on(
    draft: Draft,
    task: GraphTask,
    record: TaskRecord,
    command: c.ReportProgress | c.PutWaiting | c.SucceedClientTask | c.FailClientTask,
) -> Events:
    match command:
        case c.ReportProgress():
            # Always a float: folding now and folding the log later must give the same state.
            progress, message = float(command.progress), command.message
            draft.add(e.TaskProgressed(at=draft.at, task=task.id, progress=progress, message=message))
        case c.PutWaiting():
            draft.add(_waiting(draft, task, record.attempt, command.wait_key, command.prompt))
        case c.SucceedClientTask():
            succeed(draft, task.id, command.output)
        case c.FailClientTask():
            fail(draft, task, command.code, command.message)
        case _:
            assert_never(command)
    return draft.events


def _waiting(
    draft: Draft, task: GraphTask, attempt: int, wait_key: str, prompt: dict[str, object] | None
) -> e.TaskWaiting:
    """The task's own timeout is paused: the time that is left continues after the answer."""
    deadline_at = draft.run.due.get(task.id)
    return e.TaskWaiting(
        at=draft.at,
        task=task.id,
        attempt=attempt,
        wait_key=wait_key,
        prompt=prompt,
        deadline_at=None if task.wait_timeout_sec is None else draft.at + task.wait_timeout_sec,
        on_timeout=task.on_timeout,
        time_left_sec=None if deadline_at is None else max(0.0, deadline_at - draft.at),
    )


def _follow(draft: Draft, ended: str) -> None:
    run = draft.run
    _continue(draft, after_the_end(graph_of(run), run.tasks, ended))


def _continue(draft: Draft, following: Following) -> None:
    """Cancel tasks that can never run, ready those that may run now, end the run if all have ended."""
    draft.add(*(e.TaskCancelled(at=draft.at, task=name) for name in following.cancelled))
    graph = graph_of(draft.run)
    wanted = frozenset(following.ready)
    for task in graph.nodes:
        if task.id in wanted:
            ready(draft, task)
    if is_over(graph, draft.run.tasks):
        draft.add(_ending(draft, graph))


def _ending(draft: Draft, graph: Graph) -> e.RunCompleted | e.RunFailed:
    blamed = failed_by(graph, draft.run.tasks)
    if blamed is None:
        return e.RunCompleted(at=draft.at)
    error = f"{blamed}: {draft.run.tasks[blamed].error or 'it never ran'}"
    return e.RunFailed(at=draft.at, reason=RUN_ERROR, error=error, task=blamed)


def _began(draft: Draft, record: TaskRecord) -> float:
    return draft.at if record.started_at is None else record.started_at
