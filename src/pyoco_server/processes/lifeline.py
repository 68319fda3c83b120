"""Bind a child's life to its parent's, so that even `kill -9` of the parent leaves no orphan.

On Linux the kernel does it (PDEATHSIG). Elsewhere a guard does: a shell that reads a pipe from this process
and kills the child when the pipe is closed before a line was written.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable

HAS_PDEATHSIG = sys.platform == "linux"
GUARD_TIMEOUT_SEC = 2.0

_PR_SET_PDEATHSIG = 1
_GUARD = 'read -r word || kill -s KILL -- "$1"'


def die_with_parent(sig: signal.Signals = signal.SIGKILL, *, parent: int | None = None) -> Callable[[], None]:
    """A `preexec_fn`: the kernel sends `sig` to the child when its parent is gone. Only on Linux.

    Call it in the parent, whose id it reads, or in the child with the parent's id. "Parent" means the
    *thread* that forks: start such children from a thread that lives as long as they should, such as that of
    the event loop.
    """
    if not HAS_PDEATHSIG:
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here: between fork and exec nothing may be imported
    expected = os.getpid() if parent is None else parent

    def bind() -> None:
        if libc.prctl(_PR_SET_PDEATHSIG, int(sig)) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        if os.getppid() != expected:  # the parent died before prctl, so no signal will come
            os._exit(1)

    return bind


class ProcessGuard:
    """Kills a process when ours dies; `release` ends the guard without harm."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},  # it needs none, and code in a slot could read it
            start_new_session=True,  # Ctrl-C is not for the guard
        )

    def release(self) -> None:
        try:
            self._shell.communicate(b"released\n", timeout=GUARD_TIMEOUT_SEC)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()


def guard_where_needed(pid: int) -> ProcessGuard | None:
    return None if HAS_PDEATHSIG else ProcessGuard(pid)
