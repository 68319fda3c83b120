"""One guard for many groups: it ends those that it watches with its owner, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pyoco_server.processes.group_guard import GroupGuard
from tests.conftest import until
from tests.worker.slots.slot_stage import is_alive, parent_of

OWNER = """
import subprocess, sys
from pyoco_server.processes.group_guard import GroupGuard
guard = GroupGuard()
leaders = [subprocess.Popen(["sleep", "600"], start_new_session=True).pid for _ in range(4)]
for pid in leaders:
    guard.watch(pid)
guard.forget(leaders[1])
guard.forget(leaders[1])
print(*leaders, flush=True)
sys.stdin.read()
guard.release()
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def _owner() -> tuple[subprocess.Popen[bytes], list[int]]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert owner.stdout is not None
    return owner, [int(pid) for pid in owner.stdout.readline().split()]


async def test_the_groups_that_it_watches_end_with_its_owner_and_a_forgotten_one_does_not() -> None:
    owner, pids = _owner()
    with owner:
        owner.kill()
    forgotten = pids.pop(1)
    await until(lambda: not any(map(is_alive, pids)))
    assert is_alive(forgotten)
    os.kill(forgotten, signal.SIGKILL)


async def test_a_released_guard_ends_nothing() -> None:
    owner, pids = _owner()
    with owner:
        assert owner.stdin is not None
        owner.stdin.close()
        assert owner.wait(10) == 0
    assert all(map(is_alive, pids))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_guard_that_was_killed_or_stopped_is_replaced_and_ends_nothing(
    sleeper: subprocess.Popen[bytes], sig: signal.Signals
) -> None:
    guard = GroupGuard()
    guard.watch(sleeper.pid)
    shell = guard._shell
    assert shell is not None
    shell.send_signal(sig)
    if sig is signal.SIGKILL:
        shell.wait()

    def is_replaced() -> bool:  # a stopped one is noticed when its pipe is full
        guard.watch(sleeper.pid)
        return guard._shell is not shell

    await until(is_replaced, every_sec=0)
    assert shell.poll() is not None
    assert guard._shell is not None
    assert parent_of(guard._shell.pid) == os.getpid()
    guard.release()
    guard.release()
    assert sleeper.poll() is None
