"""Another try of a run that is over: what may be tried again, and what need not be executed again.

The run that is over stays as it ended. A retry is a run of its own that begins with results it did not make.
"""

from collections.abc import Iterator
from enum import StrEnum

from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import OutputKept, TaskStatus
from pyoco_server.lifecycle.task_order import Course, begins_at, from_task_on

# Only from these can the next task be given what the last one returned.
CHECKPOINTS = frozenset({OutputKept.STORED, OutputKept.REFERENCED})


class NoFork(StrEnum):
    """Why a run cannot be executed again from a task on."""

    NOT_PLANNED = "not_planned"  # no plan of its tasks is recorded
    UNKNOWN_TASK = "unknown_task"
    NOT_BEGUN = "not_begun"  # and its place among the others is not known


def retry_refused(run: Run) -> Reason | None:
    if run.gone:
        return Reason.GONE
    return None if run.is_terminal else Reason.NOT_TERMINAL


def fork_refused(run: Run, course: Course, task: str) -> NoFork | None:
    if not course.planned:
        return NoFork.NOT_PLANNED
    if task not in run.tasks:
        return NoFork.UNKNOWN_TASK
    is_placed = course.needs is not None or begins_at(course, task) is not None
    return None if is_placed else NoFork.NOT_BEGUN


def taken_over(run: Run, course: Course, task: str | None = None) -> dict[str, TaskRecord]:
    """The results that another try begins with, in the order in which they were made.

    `task`: this one, and whatever comes after it, is executed again although it had succeeded.
    """
    again = set() if task is None else from_task_on(course, run.tasks, task)
    found = [(name, record) for name, record in checkpoints(run).items() if name not in again]
    return dict(sorted(found, key=lambda one: course.done.get(one[0], 0)))


def checkpoints(run: Run) -> dict[str, TaskRecord]:
    """Tasks that succeeded and whose results can be had again."""
    return {
        name: record
        for name, record in run.tasks.items()
        if record.state is TaskStatus.SUCCEEDED and record.kept in CHECKPOINTS
    }


def carried(name: str, record: TaskRecord) -> Iterator[TaskStarted | TaskSucceeded]:
    """What is to be said of this task in a run that takes it over."""
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
    """The tasks whose results are the run's: those nothing waits for, as far as they were executed.

    Where the log does not say which these are, it is the one that ended last.
    """
    done = {name: record for name, record in run.tasks.items() if record.state is TaskStatus.SUCCEEDED}
    last = {name: done[name] for name in run.last_tasks if name in done}
    if last or not done:
        return last
    latest = max(done, key=lambda name: done[name].ended_at or 0.0)
    return {latest: done[latest]}
