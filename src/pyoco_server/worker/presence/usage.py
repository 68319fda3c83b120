"""Processor time and memory of the worker and of its slots, for its registry entry (Linux).

Read from /proc at most once in MEASURE_SEC. Memory is what is resident: pages that slots share, because they
were forked from one process, count in each of them. Processes that user code starts are not counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypedDict

from pyoco_server.clock import elapsed

MEASURE_SEC = 2.0
_TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Of /proc/<pid>/stat, counted from the state, which follows the name in parentheses.
_USER_TICKS, _SYSTEM_TICKS, _RESIDENT_PAGES = 11, 12, 21


class SlotUsage(TypedDict):
    pid: int
    cpu: float | None
    memory_bytes: int


class WorkerUsage(TypedDict):
    """`cpu`: cores in use on average since the measurement before; null in the first one."""

    cpu: float | None
    cpu_cores: int | None
    memory_bytes: int
    slots: list[SlotUsage]


class _Reading(NamedTuple):
    processor_sec: float
    memory_bytes: int


class Usage:
    """`slot_pids`: the processes of the slots at the moment."""

    def __init__(self, slot_pids: Callable[[], Iterable[int]], proc: Path = Path("/proc")) -> None:
        self._slot_pids = slot_pids
        self._proc = proc
        self._before: dict[int, float] = {}
        self._measured_at: float | None = None
        self._described: WorkerUsage | None = None

    def described(self) -> WorkerUsage | None:
        """None where the kernel does not tell."""
        now = elapsed()
        if self._measured_at is None or now - self._measured_at >= MEASURE_SEC:
            self._described = self._measure(now)
            self._measured_at = now
        return self._described

    def _measure(self, now: float) -> WorkerUsage | None:
        own, slots = os.getpid(), list(self._slot_pids())
        found = {pid: read for pid in (own, *slots) if (read := self._read(pid)) is not None}
        if own not in found:
            return None
        shares = {pid: self._share(pid, read.processor_sec, now) for pid, read in found.items()}
        self._before = {pid: read.processor_sec for pid, read in found.items()}
        known = [share for share in shares.values() if share is not None]
        return {
            "cpu": round(sum(known), 3) if known else None,
            "cpu_cores": os.cpu_count(),
            "memory_bytes": sum(read.memory_bytes for read in found.values()),
            "slots": [
                {"pid": pid, "cpu": shares[pid], "memory_bytes": found[pid].memory_bytes}
                for pid in slots
                if pid in found
            ],
        }

    def _share(self, pid: int, processor_sec: float, now: float) -> float | None:
        """A process that is new since the last measurement has used all its time since then."""
        if self._measured_at is None:
            return None
        used_sec = max(0.0, processor_sec - self._before.get(pid, 0.0))
        return round(used_sec / (now - self._measured_at), 3)

    def _read(self, pid: int) -> _Reading | None:
        try:
            fields = (self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
            return _Reading(ticks / _TICKS_PER_SEC, int(fields[_RESIDENT_PAGES]) * _PAGE_BYTES)
        except (OSError, IndexError, ValueError):
            return None
