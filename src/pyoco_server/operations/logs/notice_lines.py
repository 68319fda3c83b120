"""The notices of a run as lines of its log: what each event says about an attempt, a task or the run. Pure.

A worker writes these lines between the lines that the run prints. A run that prints nothing and ends soon has
none of them stored: its end has `notices=FORMAT`, and readers make the same lines from its events
(`unwritten`). So the lines of one format never change: a line keeps its bytes for as long as the run exists.
Another text, or another event with a notice, needs another format, beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pyoco_server.lifecycle.events import (
    Event,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunLost,
    RunParked,
    TaskCancelled,
    TaskFailed,
    TaskStarted,
    TaskSucceeded,
    TaskWaiting,
)
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX, LossCause, OutputKept
from pyoco_server.printable import as_line
from pyoco_server.store.logs.writer import LogLine

FORMAT = 1

_KEPT = {
    OutputKept.UNSERIALISABLE: "; its result cannot be kept as JSON, so a resumed run executes it again",
    OutputKept.APPROXIMATE: "; its result is not the same after JSON, so a resumed run executes it again",
    OutputKept.TOO_LARGE: "; its result is too large to be kept, so a resumed run executes it again",
}
_LOST = {
    LossCause.SLOT_CRASHED: "the run's process died",
    LossCause.HANDED_BACK: "the worker hands the run back",
    LossCause.WORKER_LOST: "the worker is gone",
}


def lines_of(event: Event) -> list[LogLine]:
    """Empty for events without a notice."""
    match event:
        case TaskStarted():
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return _about_task(f"task {event.task} started{again}", event)
        case TaskSucceeded():
            kept = _KEPT.get(event.kept, "")
            text = f"task {event.task} succeeded in {_took(event.at - event.started_at)}{kept}"
            return _about_task(text, event, "WARNING" if kept else "INFO")
        case TaskFailed():
            return _failure(event)
        case TaskCancelled():
            return notice(f"task {event.task} will not run", event.at, task=event.task)
        case TaskWaiting():
            return _about_task(_waits(event), event)
        case RunClaimed():
            return notice(f"attempt {event.fence} begins on worker {event.worker_id}", event.at)
        case RunParked():
            return notice("nothing is left but waits: the run is parked, the worker is free", event.at)
        case RunCompleted():
            return notice("run completed", event.at)
        case RunFailed():
            text = f"run failed: {_first_line(event.error)}"
            return notice(text, event.at, task=event.task, level="ERROR")
        case RunCancelled():
            return notice("run cancelled", event.at, level="WARNING")
        case RunLost():
            detail = f": {event.detail}" if event.detail else ""
            return notice(f"{_LOST[event.cause]}{detail}", event.at, level="WARNING")
        case _:
            return []


def notice(
    text: str, at: float, *, task: str | None = None, attempt: int | None = None, level: str = "INFO"
) -> list[LogLine]:
    """A system line, or several if the text has several lines."""
    return [LogLine(at, "system", as_line(line), task, attempt or None, level) for line in text.split("\n")]


def unwritten_lines(events: Iterable[Event]) -> list[LogLine] | None:
    """The log of a run whose end says that no line of it is stored. None for all other runs.

    It is that of the first claim, from the claim to the end: a run with a second claim has a stored log.
    Results that were carried over from an earlier run are before the claim.
    """
    lines: list[LogLine] | None = None
    for event in events:
        if isinstance(event, RunClaimed):
            lines = []
        if lines is not None:
            lines += lines_of(event)
            if isinstance(event, RunCompleted | RunFailed):
                return lines if event.notices == FORMAT else None
    return None


def _about_task(
    text: str, event: TaskStarted | TaskSucceeded | TaskFailed | TaskWaiting, level: str = "INFO"
) -> list[LogLine]:
    return notice(text, event.at, task=event.task, attempt=event.attempt, level=level)


def _failure(failed: TaskFailed) -> list[LogLine]:
    again = "; it will be tried again" if failed.will_retry else ""
    text = f"task {failed.task} failed: {_first_line(failed.error)}{again}"
    trace = failed.traceback.rstrip("\n") if failed.traceback else ""
    return _about_task(f"{text}\n{trace}" if failed.traceback else text, failed, "ERROR")


def _waits(waiting: TaskWaiting) -> str:
    if waiting.deadline_at is None:  # a sleep has one
        return f"task {waiting.task} waits for an answer to '{waiting.wait_key}'"
    until = datetime.fromtimestamp(waiting.deadline_at, UTC).isoformat(timespec="seconds")
    if waiting.wait_key.startswith(SLEEP_KEY_PREFIX):
        return f"task {waiting.task} sleeps until {until}"
    return f"task {waiting.task} waits for an answer to '{waiting.wait_key}' until {until}"


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(seconds, 0) * 1000:.1f} ms"


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:1000]
