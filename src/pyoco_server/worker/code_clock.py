"""How long code was called in the main thread, without the time in which the thread waited for a core.

On a busy machine the code of a short flow may take many times as long as on a quiet one. That says nothing
about the flow. Time in which the code itself waits (for I/O, for a lock) counts.
"""

from __future__ import annotations

import os
import time

# Of the current thread: nanoseconds on a core, nanoseconds of waiting for one, and how often it got one.
_SCHEDULING = "/proc/thread-self/schedstat"
_READ_BYTES = 64
# Shorter times are not corrected: to read the file again costs more than the difference matters.
_EXACT_FROM_SEC = 0.0005


class CodeClock:
    """For the thread that makes it. Where the kernel does not count, waiting for a core counts as code."""

    def __init__(self, path: str = _SCHEDULING) -> None:
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
        self._begun_at = 0.0
        self._before = b""
        self.start()

    def start(self) -> None:
        self._before = self._read()
        self._begun_at = time.monotonic()

    def passed_sec(self) -> float:
        """Since `start`."""
        passed_sec = time.monotonic() - self._begun_at
        if passed_sec >= _EXACT_FROM_SEC and self._before:
            passed_sec -= _waited_sec(self._read()) - _waited_sec(self._before)
        return max(0.0, passed_sec)

    def _read(self) -> bytes:
        return os.pread(self._file, _READ_BYTES, 0) if self._file >= 0 else b""


def _waited_sec(scheduling: bytes) -> float:
    return int(scheduling.split()[1]) / 1e9
