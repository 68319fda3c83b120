"""Memory that a slot shares with its worker, and a lock that both take. Owns who may let a run go on.

A slot may hold several runs and executes the code of one at a time. It holds the lock while it chooses which
one goes on, and releases it before that run's code is called and while it waits. So a worker that gets the
lock knows that no other run of the slot can go on now: it may take them back, also from a process that
sleeps, hangs in native code or is stopped. The slot reads what was taken back when it has the lock again.

The memory outlives the process: it shows which run's code was executing when the process died.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from enum import IntEnum
from pathlib import Path

# The most runs in one slot.
LANES = 16

_CELL = 8  # bytes
_EXECUTING, _STEPS, _STATES, _REVOKED = 0, 1, 2, 2 + LANES
_REVOKED_BYTES = slice(_REVOKED * _CELL, (_REVOKED + LANES) * _CELL)
_NONE_REVOKED = bytes(LANES * _CELL)
_SIZE = mmap.PAGESIZE


class LaneState(IntEnum):
    UNBEGUN = 0
    BEGUN = 1
    IN_THREADS = 2  # its tasks run in threads: its code executes while the slot chooses or waits


_STATE_OF = tuple(LaneState)


class ControlPage:
    """`path`: where the other process opens the same page."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._cells = memoryview(self._memory).cast("Q")

    @classmethod
    def create(cls) -> ControlPage:
        """In the worker."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("pyoco-slot")
            path = f"/proc/{os.getpid()}/fd/{descriptor}"
        else:
            descriptor, path = tempfile.mkstemp(prefix="pyoco-slot-")
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor, path)

    @classmethod
    def open(cls, path: str) -> ControlPage:
        """In the slot. A description of its own: the lock belongs to it, not to the process."""
        return cls(os.open(path, os.O_RDWR | os.O_CLOEXEC), path)

    def close(self) -> None:
        """Callable twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if not self.path.startswith("/proc/"):
                Path(self.path).unlink(missing_ok=True)

    def lock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def try_lock(self) -> bool:
        """False while the slot chooses."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @property
    def executing(self) -> int:
        """The number of the run whose code is called now, or was called last."""
        return self._cells[_EXECUTING]

    @property
    def steps(self) -> int:
        """Grows whenever the code of a run is called or returns."""
        return self._cells[_STEPS]

    @property
    def is_in_code(self) -> bool:
        return self._cells[_STEPS] % 2 == 1

    def state(self, lane: int) -> LaneState:
        return _STATE_OF[self._cells[_STATES + lane]]

    # Written by the slot

    def enter(self, number: int) -> None:
        self._cells[_EXECUTING] = number
        self._cells[_STEPS] += 1

    def leave(self) -> None:
        self._cells[_STEPS] += 1

    def set_state(self, lane: int, state: LaneState) -> None:
        self._cells[_STATES + lane] = state

    @property
    def has_revoked(self) -> bool:
        return self._memory[_REVOKED_BYTES] != _NONE_REVOKED

    def take_revoked(self) -> list[int]:
        """With the lock: the numbers of the runs that the worker has taken back."""
        if not self.has_revoked:
            return []
        numbers = [self._cells[cell] for cell in range(_REVOKED, _REVOKED + LANES)]
        self._memory[_REVOKED_BYTES] = _NONE_REVOKED
        return [number for number in numbers if number]

    # Written by the worker

    def is_lane_free(self, lane: int) -> bool:
        """False until the slot has read that a run was taken back from there."""
        return not self._cells[_REVOKED + lane]

    def revoke(self, lane: int, number: int) -> None:
        """With the lock: this run does not go on in the slot."""
        self._cells[_REVOKED + lane] = number
