"""System lines in a run's log: one sentence for each event of a task or of the run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from pyoco_server.lifecycle.commands import (
    Command,
    CompleteRun,
    ConfirmCancelled,
    FailRun,
    FailTask,
    ParkRun,
    PutTaskWaiting,
    ReportLoss,
    SkipTask,
    StartTask,
    SucceedTask,
)
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX, LossCause, OutputKept


class Notice(NamedTuple):
    """`at`: when it happened, if that was earlier; None: now."""

    text: str
    task: str | None = None
    attempt: int | None = None
    level: str = "INFO"
    at: float | None = None


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


def notices_of(command: Command) -> list[Notice]:
    """Empty for commands that need no notice."""
    match command:
        case StartTask():
            again = f" (attempt {command.attempt})" if command.attempt > 1 else ""
            text = f"task {command.task} started{again}"
            # Not now: the task may already have printed lines with earlier instants.
            return [Notice(text, command.task, command.attempt, at=command.started_at)]
        case SucceedTask():
            took = _took(command.ended_at - command.started_at)
            kept = _KEPT.get(command.kept, "")
            text = f"task {command.task} succeeded in {took}{kept}"
            return [Notice(text, command.task, command.attempt, "WARNING" if kept else "INFO")]
        case FailTask():
            return _failure(command)
        case SkipTask():
            return [Notice(f"task {command.task} will not run", command.task)]
        case PutTaskWaiting():
            return [Notice(_waits(command), command.task, command.attempt)]
        case ParkRun():
            return [Notice("nothing is left but waits: the run is parked, the worker is free")]
        case CompleteRun():
            return [Notice("run completed")]
        case FailRun():
            return [Notice(f"run failed: {_first_line(command.error)}", command.task, level="ERROR")]
        case ConfirmCancelled():
            return [Notice("run cancelled", level="WARNING")]
        case ReportLoss():
            detail = f": {command.detail}" if command.detail else ""
            return [Notice(f"{_LOST[command.cause]}{detail}", level="WARNING")]
        case _:
            return []


def _waits(waiting: PutTaskWaiting) -> str:
    if waiting.deadline_at is None:  # a sleep has one
        return f"task {waiting.task} waits for an answer to '{waiting.wait_key}'"
    until = datetime.fromtimestamp(waiting.deadline_at, UTC).isoformat(timespec="seconds")
    if waiting.wait_key.startswith(SLEEP_KEY_PREFIX):
        return f"task {waiting.task} sleeps until {until}"
    return f"task {waiting.task} waits for an answer to '{waiting.wait_key}' until {until}"


def _failure(failed: FailTask) -> list[Notice]:
    task, attempt = failed.task, failed.attempt
    again = "; it will be tried again" if failed.will_retry else ""
    lines = [f"task {task} failed: {_first_line(failed.error)}{again}"]
    lines += (failed.traceback or "").rstrip("\n").split("\n") if failed.traceback else []
    return [Notice(line, task, attempt, "ERROR") for line in lines]


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(seconds, 0) * 1000:.1f} ms"


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:1000]
