"""What happened in a run, on its way into a commit; and how much of it one commit takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pyoco_server.lifecycle.commands import Command, SucceedTask
from pyoco_server.worker.recording.values import StoredResult

BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 256 * 1024
# Of an event besides what user code put into it.
FRAME_BYTES = 200

Acknowledge = Callable[[], None]


class Fact(NamedTuple):
    """`acknowledged` is called when it is in the log; what is urgent does not wait for others to join."""

    command: Command
    size: int = 0
    acknowledged: Acknowledge | None = None
    is_urgent: bool = False

    def with_result(self, result: StoredResult) -> Fact:
        assert isinstance(self.command, SucceedTask)
        output = None if result.json is None else msgspec.Raw(result.json)
        return self._replace(
            command=replace(self.command, output=output, kept=result.kept, types=result.types)
        )


def next_batch(waiting: list[Fact]) -> tuple[list[Fact], list[Fact]]:
    """Those that go into one commit, and those that are left."""
    size = 0
    for count, fact in enumerate(waiting):
        size += fact.size + FRAME_BYTES
        if count and (size > BATCH_BYTES_MAX or count >= BATCH_EVENTS_MAX):
            return waiting[:count], waiting[count:]
    return waiting, []
