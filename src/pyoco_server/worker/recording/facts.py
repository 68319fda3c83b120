"""Commands of a run before they are committed, and how much one commit takes.

The process that executes the run reports a command without the values of user code. They are sent beside it
as JSON, and the process that commits the command puts them into it without decoding them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum, auto
from typing import NamedTuple, assert_never

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
# Of an event, without the values of user code.
FRAME_BYTES = 200

Acknowledge = Callable[[], None]
TaskCommand = PlanTasks | StartTask | SucceedTask | FailTask | SkipTask | PutTaskWaiting

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Numbering(NamedTuple):
    """The numbers in commands of one claim: its fence, and the attempts of each task before this claim."""

    fence: int
    attempts: Mapping[str, int] = {}

    def attempt_no(self, task: str, attempt: int) -> int:
        """The engine counts from 1 in each claim, the log counts on. 0: the task never started."""
        return self.attempts.get(task, 0) + attempt if attempt else 0


class Urgency(IntEnum):
    NOW = auto()  # other tasks wait until the command is in the log
    SOON = auto()  # no task waits for it, but it should not be lost with the process
    WITH_NEXT = auto()  # another report or the end of the run follows


# The bytes: values of user code (output, inputs, prompt), as JSON. Acknowledge is called when the command
# is in the log; None if nothing waits for that.
Report = Callable[[TaskCommand, bytes | None, Acknowledge | None, Urgency], None]


class Fact(NamedTuple):
    """A command as it is committed. One with `acknowledged` does not wait for others to join."""

    command: Command
    size: int = 0
    acknowledged: Acknowledge | None = None


def fact_of(
    command: TaskCommand, values: bytes | None = None, acknowledged: Acknowledge | None = None
) -> Fact:
    """The command with its values, and about how many bytes these have."""
    match command:
        case SucceedTask():
            if values is None:
                return Fact(command, 0, acknowledged)
            return Fact(replace(command, output=msgspec.Raw(values)), len(values), acknowledged)
        case StartTask():
            inputs = None if values is None else _decode_members(values)
            return Fact(replace(command, inputs=inputs), len(values or b""))
        case PlanTasks():
            needed = (name for names in (command.needs or {}).values() for name in names)
            return Fact(command, sum(map(len, command.tasks)) + sum(map(len, needed)))
        case FailTask():
            return Fact(command, len(command.error) + len(command.traceback or ""))
        case PutTaskWaiting():
            prompt = None if values is None else _decode_members(values)
            return Fact(replace(command, prompt=prompt), len(values or b""))
        case SkipTask():
            return Fact(command)
        case _:
            assert_never(command)


def next_batch(waiting: list[Fact]) -> tuple[list[Fact], list[Fact]]:
    """The facts that go into one commit, and those that are left."""
    size = 0
    for count, fact in enumerate(waiting):
        size += fact.size + FRAME_BYTES
        if count and (size > BATCH_BYTES_MAX or count >= BATCH_EVENTS_MAX):
            return waiting[:count], waiting[count:]
    return waiting, []
