"""What tasks print in a program that has a worker inside it: heard beside the program's own output.

Only for as long as runs are executed, sys.stdout and sys.stderr are replaced by ears that pass everything on
to where it went before. What a task's thread prints is also a line of its run; what the program prints is
not. Processes and threads that a task starts are not heard here: a worker with slots hears them.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt, Whereabouts
from pyoco_server.worker.slots.capture import LineStream, LogLines

# at, stream, who, lines, level
Hear = Callable[[float, str, CurrentAttempt, list[str], str | None], None]

_lock = threading.Lock()
_runs: dict[str, Hear] = {}
_ears: list[_Ear] = []


def listen_to(run_id: str, hear: Hear) -> None:
    """`hear` is called from the threads of the run's tasks."""
    with _lock:
        _runs[run_id] = hear
        if not _ears:
            _ears.extend((_Ear("stdout"), _Ear("stderr")))
            for ear in _ears:
                setattr(sys, ear.name, ear)
            logging.getLogger().addHandler(_log_lines)


def end_of(run_id: str, task: str | None = None) -> None:
    """The task has ended (None: the run has): what it has begun to print is a line too."""
    for ear in tuple(_ears):
        ear.lines.end_lines_of(task, run_id)


def stop_listening(run_id: str) -> None:
    end_of(run_id)
    with _lock:
        _runs.pop(run_id, None)
        if not _runs:
            logging.getLogger().removeHandler(_log_lines)
            for ear in _ears:
                if getattr(sys, ear.name) is ear:  # else somebody has put theirs in front: let it be
                    setattr(sys, ear.name, ear.stream)
            _ears.clear()


class _Ear:
    """A stream in front of another: everything goes there, and a task's part of it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stream = getattr(sys, name)
        self.lines = LineStream(name, -1, _tell)

    def write(self, text: str) -> int:
        if CURRENT.get() is not None:
            self.lines.write(text)
        return int(self.stream.write(text) or 0)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _tell(at: float, stream: str, where: Whereabouts, lines: list[str], level: str | None) -> None:
    hear = _runs.get(where.run_id) if where is not None else None
    if hear is not None and where is not None:
        hear(at, stream, where, lines, level)


_log_lines = LogLines(_tell)
