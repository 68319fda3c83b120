"""Whether a run has left processes behind that print where the slot prints.

What Python starts for a task gets pipes of its own (`task_pipes`). What is started past that, by a shell or
from a thread of no task, inherits the slot's stdout and stderr, and may outlive its run: its lines would then
stand in the log of the next one. Looked for only after a run that has started something. Linux only:
elsewhere none is found.
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
    """`descriptors`: the slot's own stdout and stderr, wherever 1 and 2 may point by now."""

    def __init__(self, descriptors: tuple[int, ...]) -> None:
        self._ours = {_name(f"/proc/self/fd/{one}") for one in descriptors} - {None}
        self._has_started = False
        sys.addaudithook(self._on_event)

    def are_there(self) -> bool:
        """Now that the run is over. Asked once for each run."""
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
    """A helper of `multiprocessing` that stays for good, and prints nothing."""
    module: Any = sys.modules.get("multiprocessing.resource_tracker")
    return str(getattr(getattr(module, "_resource_tracker", None), "_pid", None))


def _name(link: str) -> str | None:
    """None for a process that has ended, or is another user's."""
    try:
        return str(Path(link).readlink())
    except OSError:
        return None
