"""What a test gets: the run as a value. Nothing in it changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from pyoco_server.lifecycle.events import Event, TaskSucceeded
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.retry import results
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX, OutputKept, RunStatus
from pyoco_server.testing.answers import AskedApproval
from pyoco_server.testing.journal import Journal

_NOT_KEPT = {OutputKept.TOO_LARGE, OutputKept.UNSERIALISABLE}


class NoResult(Exception):
    """The run has no result: the message says why."""


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line that the code of a task printed or logged. `stream`: stdout, stderr or logging."""

    text: str
    task: str
    attempt: int
    stream: str
    level: str | None
    at: float


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that has ended, or that waits for answers which the test does not give (`waiting`)."""

    status: RunStatus
    error: str | None
    failed_task: str | None
    events: tuple[Event, ...] = field(repr=False)
    logs: tuple[PrintedLine, ...] = field(repr=False)
    waiting: tuple[AskedApproval, ...]
    left_behind: int  # threads of tasks that did not return, although their time was up
    run: Run = field(repr=False)

    @property
    def result(self) -> Any:
        """As `GET /runs/{run_id}/result` answers it: of the last task, or of the last tasks by name, as JSON.

        Raises NoResult unless the run has completed.
        """
        if self.status is not RunStatus.COMPLETED:
            why = f": {self.error}" if self.error else ""
            raise NoResult(f"The run has no result, because it is {self.status}{why}")
        found = results(_with_order(self.run, self.events))
        lost = [name for name, record in found.items() if record.kept in _NOT_KEPT]
        if lost:
            raise NoResult(f"The result of task '{lost[0]}' is not kept: it is no JSON, or too large")
        outputs = {name: record.output for name, record in found.items()}
        return outputs if len(outputs) > 1 else next(iter(outputs.values()), None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the events, for short: `("RunSubmitted", "RunClaimed", …)`."""
        return tuple(type(event).__name__ for event in self.events)

    @property
    def elapsed_sec(self) -> float:
        """Virtual seconds between the submission and the last event."""
        return max(event.at for event in self.events) - self.events[0].at

    def task(self, name: str) -> TaskRecord:
        """The record of a task: its `state`, `attempt`, `inputs`, `output`, `error`, instants and answer.

        An iteration has the name `step[0]`.
        """
        if name not in self.run.tasks:
            known = ", ".join(self.run.tasks) or "none"
            raise KeyError(f"The run has no task '{name}'. Its tasks: {known}")
        return self.run.tasks[name]

    def printed(self, task: str | None = None) -> tuple[str, ...]:
        """The lines of this task, or of all."""
        return tuple(line.text for line in self.logs if task in (None, line.task))


def _with_order(run: Run, events: tuple[Event, ...]) -> Run:
    """Several tasks end at one instant of virtual time: the order of their events shows which was last."""
    ended = {
        event.task: float(place) for place, event in enumerate(events) if isinstance(event, TaskSucceeded)
    }
    tasks = {name: replace(record, ended_at=ended.get(name)) for name, record in run.tasks.items()}
    return replace(run, tasks=tasks)


def finished(journal: Journal, logs: list[PrintedLine], left_behind: int) -> FinishedRun:
    events = journal.events()
    run = fold(None, events)
    assert run is not None
    large = journal.large_results()
    tasks = {
        name: replace(record, output=large[name]) if record.kept is OutputKept.REFERENCED else record
        for name, record in run.tasks.items()
    }
    run = replace(run, tasks=tasks)
    return FinishedRun(
        status=run.status,
        error=run.error,
        failed_task=run.failed_task,
        events=events,
        logs=tuple(logs),
        waiting=tuple(asked_in(run)),
        left_behind=left_behind,
        run=run,
    )


def asked_in(run: Run) -> list[AskedApproval]:
    """The open approvals, without sleeps."""
    return [
        AskedApproval(task, wait.key, wait.prompt or {}, wait.deadline_at)
        for task, wait in run.waits.items()
        if not wait.key.startswith(SLEEP_KEY_PREFIX) and not run.is_terminal
    ]
