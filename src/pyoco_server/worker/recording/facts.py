"""Commands of a run on their way into a commit, and how much one commit takes.

The process that executes the run reports a command without the values of user code. They travel beside it as
JSON and are put into the command by the process that commits it, without being decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pyoco_server.lifecycle.commands import (
    Command,
    FailTask,
    PlanTasks,
    PutTaskWaiting,
    SkipTask,
    StartTask,
    SucceedTask,
)

BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 256 * 1024
# Of an event, without what user code put into it.
FRAME_BYTES = 200

Acknowledge = Callable[[], None]
TaskCommand = PlanTasks | StartTask | SucceedTask | FailTask | SkipTask | PutTaskWaiting

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Numbering(NamedTuple):
    """The numbers in commands of one claim: its fence, and how often each task was tried before it."""

    fence: int
    attempts: Mapping[str, int] = {}

    def attempt_no(self, task: str, attempt: int) -> int:
        """The engine counts from 1 in each claim, the log counts on. 0: the task never started."""
        return self.attempts.get(task, 0) + attempt if attempt else 0


class Urgency(Enum):
    NOW = auto()  # other tasks wait until it is in the log
    SOON = auto()  # nothing waits for it, but it should not be lost with the process
    WITH_NEXT = auto()  # another report or the end of the run follows


class TaskReport(NamedTuple):
    """`values`: what user code put into it (output, inputs, prompt), as JSON.

    `acknowledged` is to be called when the command is in the log; given only if something waits for that.
    """

    command: TaskCommand
    values: bytes | None = None
    acknowledged: Acknowledge | None = None
    urgency: Urgency = Urgency.WITH_NEXT


class Fact(NamedTuple):
    """A command as it is committed. One that is to be acknowledged does not wait for others to join."""

    command: Command
    size: int = 0
    acknowledged: Acknowledge | None = None


def fact_of(report: TaskReport) -> Fact:
    command, values = report.command, report.values
    return Fact(_with_values(command, values), _size_of(command, values), report.acknowledged)


def next_batch(waiting: list[Fact]) -> tuple[list[Fact], list[Fact]]:
    """The facts that go into one commit, and those that are left."""
    size = 0
    for count, fact in enumerate(waiting):
        size += fact.size + FRAME_BYTES
        if count and (size > BATCH_BYTES_MAX or count >= BATCH_EVENTS_MAX):
            return waiting[:count], waiting[count:]
    return waiting, []


def _with_values(command: TaskCommand, values: bytes | None) -> TaskCommand:
    if values is None:
        return command
    match command:
        case SucceedTask():
            return replace(command, output=msgspec.Raw(values))
        case StartTask():
            return replace(command, inputs=_decode_members(values))
        case PutTaskWaiting():
            return replace(command, prompt=_decode_members(values))
        case _:
            raise AssertionError(f"{type(command).__name__} carries no values of user code")


def _size_of(command: TaskCommand, values: bytes | None) -> int:
    match command:
        case FailTask():
            return len(command.error) + len(command.traceback or "")
        case PlanTasks():
            needed = (name for names in (command.needs or {}).values() for name in names)
            return sum(map(len, command.tasks)) + sum(map(len, needed))
        case _:
            return len(values or b"")
