"""The waits of a run in flight: which are open, and how they have ended according to the log.

Commits of other processes that end a wait are pushed to the worker. Those that it missed while it was cut off
are found in the run itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyoco_server.engine import WaitAnswer
from pyoco_server.lifecycle.events import Event, TaskFailed, TaskSucceeded
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TaskStatus

Answered = tuple[str, WaitAnswer]


class OpenWaits:
    """Used in the loop's thread only. A name is added before its wait is committed."""

    def __init__(self, run: Run) -> None:
        # Those of earlier claims too: they may be answered before the engine has reached them again.
        self._open = {name for name, record in run.tasks.items() if record.state is TaskStatus.WAITING}

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, name: str) -> None:
        self._open.add(name)

    def answered_by(self, events: Iterable[Event]) -> list[Answered]:
        """The waits that these events have ended; each is returned once."""
        found: list[Answered] = []
        for event in events:
            if isinstance(event, TaskSucceeded) and self._closes(event.task):
                found.append((event.task, WaitAnswer(event.output)))
            elif isinstance(event, TaskFailed) and self._closes(event.task):
                found.append((event.task, WaitAnswer(error=event.error)))
        return found

    def answered_in(self, run: Run) -> list[Answered]:
        """The same, from a run that was read whole."""
        found: list[Answered] = []
        for name in sorted(self._open & run.tasks.keys()):
            record = run.tasks[name]
            if record.state is TaskStatus.SUCCEEDED and self._closes(name):
                found.append((name, WaitAnswer(record.output)))
            elif record.state is TaskStatus.FAILED and self._closes(name):
                found.append((name, WaitAnswer(error=record.error or "")))
        return found

    def _closes(self, name: str) -> bool:
        is_open = name in self._open
        self._open.discard(name)
        return is_open
