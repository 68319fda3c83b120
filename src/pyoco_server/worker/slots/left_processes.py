"""Whether a run has left processes behind that write to the slot's stdout or stderr.

Processes that Python starts for a task get pipes (`task_pipes`). Others, started by a shell or in a thread
without a task, inherit the slot's stdout and stderr. If they outlive the run, their lines would be in the log
of the next run. The check is made after a run that has started a process. Linux only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_STARTS = frozenset({"os.system", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen"})
_PROCESSES = Path("/proc")
_STREAMS = (1, 2)


class LeftProcesses:
    """`descriptors`: copies of the slot's stdout and stderr; user code may have changed 1 and 2."""

    def __init__(self, descriptors: tuple[int, ...]) -> None:
        self._ours = {_name(f"/proc/self/fd/{one}") for one in descriptors} - {None}
        self._has_started = False
        sys.addaudithook(self._on_event)

    def are_there(self) -> bool:
        """Call it once after each run."""
        has_started, self._has_started = self._has_started, False
        return has_started and any(self._prints_here(pid) for pid in _others())

    def _on_event(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _STARTS:
            self._has_started = True

    def _prints_here(self, pid: str) -> bool:
        return any(_name(f"{_PROCESSES}/{pid}/fd/{stream}") in self._ours for stream in _STREAMS)


def _others() -> Iterator[str]:
    if not _PROCESSES.is_dir():
        return
    known = {str(os.getpid()), _resource_tracker()}
    yield from (one.name for one in _PROCESSES.iterdir() if one.name.isdigit() and one.name not in known)


def _resource_tracker() -> str:
    """A helper process of `multiprocessing` that stays, and prints nothing."""
    module: Any = sys.modules.get("multiprocessing.resource_tracker")
    return str(getattr(getattr(module, "_resource_tracker", None), "_pid", None))


def _name(link: str) -> str | None:
    """None if the process has ended, or belongs to another user."""
    try:
        return str(Path(link).readlink())
    except OSError:
        return None
