"""What tasks print in a program that contains a worker, separated from the program's own output.

Only while runs are executed, sys.stdout and sys.stderr are replaced by tees that pass everything on to the
original stream. What a task's thread prints is also a line of its run; what the program prints is not. Output
of processes and threads that a task starts is not captured here; a worker with slots captures it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt
from pyoco_server.worker.slots.capture import LineStream, LogLines

# at, stream, attempt, lines, level
OnTaskLines = Callable[[float, str, CurrentAttempt, list[str], str | None], None]

_lock = threading.Lock()
_runs: dict[str, OnTaskLines] = {}
_tees: list[_Tee] = []


def listen_to(run_id: str, on_lines: OnTaskLines) -> None:
    """`on_lines` is called from the threads of the run's tasks."""
    with _lock:
        _runs[run_id] = on_lines
        if not _tees:
            _tees.extend((_Tee("stdout"), _Tee("stderr")))
            for tee in _tees:
                setattr(sys, tee.name, tee)
            logging.getLogger().addHandler(_log_lines)


def end_of(run_id: str, task: str | None = None) -> None:
    """The task (None: the run) has ended: its incomplete line is complete now."""
    for tee in tuple(_tees):
        tee.lines.end_lines_of(run_id, task)


def stop_listening(run_id: str) -> None:
    end_of(run_id)
    with _lock:
        _runs.pop(run_id, None)
        if not _runs:
            logging.getLogger().removeHandler(_log_lines)
            for tee in _tees:
                if getattr(sys, tee.name) is tee:  # otherwise other code has replaced it: keep that
                    setattr(sys, tee.name, tee.stream)
            _tees.clear()


class _Tee:
    """A stream that writes everything to another, and lines of a task also to its run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stream = getattr(sys, name)
        self.lines = LineStream(name, -1, _pass_on)

    def write(self, text: str) -> int:
        if CURRENT.get() is not None:
            self.lines.write(text)
        return int(self.stream.write(text) or 0)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def _pass_on(
    at: float, stream: str, attempt: CurrentAttempt | None, lines: list[str], level: str | None
) -> None:
    on_lines = _runs.get(attempt.run_id) if attempt is not None else None
    if on_lines is not None and attempt is not None:
        on_lines(at, stream, attempt, lines, level)


_log_lines = LogLines(_pass_on)
