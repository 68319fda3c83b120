"""Retries of ended runs: which runs may be retried, and which results are reused.

The ended run does not change. A retry is a new run that starts with results of the ended one.
"""

from collections.abc import Iterator
from enum import StrEnum

from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import OutputKept, TaskStatus
from pyoco_server.lifecycle.task_order import TaskOrder, begins_at, tasks_from

# Only these can be restored as the input of the next task.
CHECKPOINTS = frozenset({OutputKept.STORED, OutputKept.REFERENCED})


class NoFork(StrEnum):
    """Why a run cannot be forked at a task."""

    NOT_PLANNED = "not_planned"  # no plan of its tasks is recorded
    UNKNOWN_TASK = "unknown_task"
    NOT_BEGUN = "not_begun"  # and its place in the order is not known


def retry_refused(run: Run) -> Reason | None:
    if run.gone:
        return Reason.GONE
    return None if run.is_terminal else Reason.NOT_TERMINAL


def fork_refused(run: Run, order: TaskOrder, task: str) -> NoFork | None:
    if not order.planned:
        return NoFork.NOT_PLANNED
    if task not in run.tasks:
        return NoFork.UNKNOWN_TASK
    is_placed = order.needs is not None or begins_at(order, task) is not None
    return None if is_placed else NoFork.NOT_BEGUN


def reused_results(run: Run, order: TaskOrder, task: str | None = None) -> dict[str, TaskRecord]:
    """The results that a retry starts with, in the order in which they were made.

    `task`: this task and everything after it are executed again, also if they have succeeded.
    """
    again = set() if task is None else tasks_from(order, run.tasks, task)
    found = [(name, record) for name, record in checkpoints(run).items() if name not in again]
    return dict(sorted(found, key=lambda one: order.done.get(one[0], 0)))


def checkpoints(run: Run) -> dict[str, TaskRecord]:
    """Tasks that succeeded and whose results can be restored."""
    return {
        name: record
        for name, record in run.tasks.items()
        if record.state is TaskStatus.SUCCEEDED and record.kept in CHECKPOINTS
    }


def carry_over(name: str, record: TaskRecord) -> Iterator[TaskStarted | TaskSucceeded]:
    """The events that record this task in a run that reuses its result."""
    assert record.started_at is not None, "what succeeded has started"
    assert record.ended_at is not None
    assert record.kept is not None
    if record.inputs or record.worker_id:
        yield TaskStarted(
            at=record.started_at,
            task=name,
            attempt=record.attempt,
            inputs=record.inputs,
            worker_id=record.worker_id,
        )
    yield TaskSucceeded(
        at=record.ended_at,
        task=name,
        attempt=record.attempt,
        started_at=record.started_at,
        output=record.output,
        kept=record.kept,
        types=record.types,
    )


def results(run: Run) -> dict[str, TaskRecord]:
    """The tasks whose results are the run's: executed tasks that no other task needs.

    If the log does not name these, the task that ended last; of several that ended at one instant, the one
    that was planned last.
    """
    done = {name: record for name, record in run.tasks.items() if record.state is TaskStatus.SUCCEEDED}
    last = {name: done[name] for name in run.last_tasks if name in done}
    if last or not done:
        return last
    latest = max(reversed(done), key=lambda name: done[name].ended_at or 0.0)
    return {latest: done[latest]}
