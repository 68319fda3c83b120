"""A command with the values of user code that belong to it, as it is committed. Pure.

The process that executes a run sends a command and its values apart (`listener.py`).
"""

from __future__ import annotations

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
from pyoco_server.worker.recording.listener import NO_INPUTS, Acknowledge, TaskCommand

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


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
            if values is None:
                return Fact(command)
            inputs = {} if values == NO_INPUTS else _decode_members(values)
            return Fact(replace(command, inputs=inputs), len(values))
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
