"""What counts as time of code: waiting inside of the code does, waiting for a core does not."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pyoco_server.worker.code_clock import CodeClock

# Uses a core for ten seconds at most.
BUSY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
until = time.monotonic() + 10.0
while time.monotonic() < until: pass
"""


def _counts(path: Path, waited_sec: float) -> None:
    path.write_text(f"1000000 {int(waited_sec * 1e9)} 7\n")


def test_time_in_which_the_thread_waited_for_a_core_does_not_count(tmp_path: Path) -> None:
    counted = tmp_path / "schedstat"
    _counts(counted, waited_sec=3.0)
    begun_at = time.monotonic()
    clock = CodeClock(str(counted))
    time.sleep(0.02)
    _counts(counted, waited_sec=3.015)
    passed_sec = clock.passed_sec()
    assert 0.004 <= passed_sec <= time.monotonic() - begun_at - 0.0149


def test_time_that_the_code_waits_counts() -> None:
    clock = CodeClock()
    time.sleep(0.02)
    assert clock.passed_sec() >= 0.01


def test_each_start_begins_anew() -> None:
    clock = CodeClock()
    time.sleep(0.05)
    before_sec = clock.passed_sec()
    clock.start()
    assert clock.passed_sec() < before_sec


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the kernel does not count")
def test_a_thread_that_shares_its_core_has_its_own_part_only() -> None:
    """Two processes on one core: each gets about half of the time, and only that half counts."""
    cores = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", BUSY, str(min(cores))], stdout=subprocess.PIPE) as rival:
        try:
            assert rival.stdout is not None
            rival.stdout.readline()
            assert _part_that_counts(min(cores)) < 0.8
        finally:
            rival.kill()


def _part_that_counts(core: int) -> float:
    """In a thread of its own, which stays on this core for some tenths of a second."""
    parts: list[float] = []

    def count() -> None:
        os.sched_setaffinity(0, {core})
        clock, begun_at = CodeClock(), time.monotonic()
        while time.monotonic() - begun_at < 0.3:
            pass
        parts.append(clock.passed_sec() / (time.monotonic() - begun_at))

    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
    return parts[0]


def test_without_counts_of_the_kernel_all_time_counts(tmp_path: Path) -> None:
    clock = CodeClock(str(tmp_path / "missing"))
    time.sleep(0.01)
    assert clock.passed_sec() >= 0.01
