"""How a wait ends, in runs of both drivers: by an answer or at its deadline. And other effects of time.

The result of a wait needs no worker. It is recorded in the commit of the answer, and the worker that claims
the run next finds it there. `decide.py` has checked lock one before.
"""

import msgspec

from pyoco_server.json_schema.check import Mismatch, problems_of
from pyoco_server.json_value import JsonValue
from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.client_driven import fail, ready, succeed
from pyoco_server.lifecycle.decision import Decision, Draft, Events, Reason, Refused
from pyoco_server.lifecycle.graph import GraphTask, OnTimeout, TaskKind, task_of
from pyoco_server.lifecycle.run import Run, TaskRecord, Wait, is_expired
from pyoco_server.lifecycle.status import Driver, TaskStatus

# The member of a prompt that has the JSON Schema of the payload.
ANSWER_SCHEMA = "answer_schema"
TIMED_OUT = "ERR_TIMEOUT"
REJECTED = "REJECTED"
# The reason of the cancel of a run that has not started in time.
EXPIRED = "expired"


def resume(run: Run, command: c.ResumeTask, at: float) -> Decision:
    record = run.tasks[command.task]
    if record.state is not TaskStatus.WAITING or record.wait is None:
        return Refused(Reason.NOT_WAITING)
    if record.wait.key != command.wait_key:
        return Refused(Reason.WAIT_KEY)
    if not command.rejected and (problems := _answer_problems(record.wait, command.payload)):
        return Refused(Reason.ANSWER, problems)
    draft = Draft(run, at)
    task = task_of(run.graph, command.task)
    goes_on = task is not None and task.type is TaskKind.TASK and not command.rejected
    draft.add(_answered(command, record, at, goes_on=goes_on))
    if command.rejected:
        _fail(draft, command.task, record.wait, REJECTED, command.comment or "rejected", final=True)
    elif not goes_on:
        _succeed(draft, command.task, record.wait, command.payload)
    return draft.events


def _answer_problems(wait: Wait, payload: JsonValue) -> tuple[Mismatch, ...]:
    schema = (wait.prompt or {}).get(ANSWER_SCHEMA)
    if isinstance(schema, msgspec.Raw):  # as the commit has it that this process wrote
        schema = msgspec.json.decode(schema)
    return problems_of(schema, payload) if isinstance(schema, dict) else ()


def pass_time(run: Run, at: float) -> Events:
    """Everything that is due at `at`, the earliest first, each on the state after those before it."""
    if is_expired(run, at):
        return (e.CancelRequested(at=at, reason=EXPIRED), e.RunCancelled(at=at))
    draft = Draft(run, at)
    for task, _ in sorted(run.due.items(), key=lambda one: one[1]):
        instant = draft.run.due.get(task)
        if instant is not None and instant <= at and not draft.run.is_terminal:
            _due(draft, task)
    return draft.events


def _due(draft: Draft, name: str) -> None:
    record = draft.run.tasks.get(name)
    task = task_of(draft.run.graph, name)
    if record is None:
        return
    if record.wait is not None:
        if record.wait.on_timeout is OnTimeout.SUCCEED:
            _succeed(draft, name, record.wait, None)
        else:
            _fail(draft, name, record.wait, TIMED_OUT, "no answer came in time")
    elif task is not None:
        _due_of_client(draft, task, record)


def _due_of_client(draft: Draft, task: GraphTask, record: TaskRecord) -> None:
    if record.state is TaskStatus.RUNNING:
        fail(draft, task, TIMED_OUT, f"it was RUNNING for longer than {task.timeout_sec:g} s")
    elif record.state is TaskStatus.PENDING:
        ready(draft, task)


def _answered(command: c.ResumeTask, record: TaskRecord, at: float, *, goes_on: bool) -> e.TaskResumed:
    left_sec = record.time_left_sec if goes_on else None
    return e.TaskResumed(
        at=at,
        task=command.task,
        payload=command.payload,
        by=command.by,
        rejected=command.rejected,
        comment=command.comment,
        deadline_at=None if left_sec is None else at + left_sec,
    )


def _succeed(draft: Draft, task: str, wait: Wait, output: object) -> None:
    if draft.run.driver is Driver.CLIENT:
        succeed(draft, task, output)
    else:
        draft.add(
            e.TaskSucceeded(
                at=draft.at, task=task, attempt=wait.attempt, started_at=wait.since, output=output
            )
        )


def _fail(draft: Draft, name: str, wait: Wait, code: str, error: str, *, final: bool = False) -> None:
    """A worker-driven run continues by the rules of its flow. The worker that claims it applies them."""
    task = task_of(draft.run.graph, name)
    if draft.run.driver is Driver.CLIENT and task is not None:
        fail(draft, task, code, error, final=final)
    else:
        draft.add(
            e.TaskFailed(
                at=draft.at, task=name, attempt=wait.attempt, started_at=wait.since, error=error, code=code
            )
        )
