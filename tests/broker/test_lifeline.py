"""No orphans: whatever happens to the parent, its nats-server is gone too."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyoco_server.broker import recorded_broker_url
from pyoco_server.processes.lifeline import HAS_PDEATHSIG, ProcessGuard

if TYPE_CHECKING:
    from tests.broker.conftest import Eventually, IsRunning, MakeBroker, RunScript

PARENT = """
import asyncio, signal, sys
from pathlib import Path
from pyoco_server.broker import EmbeddedBroker

async def main():
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    async with EmbeddedBroker(data_dir=Path(sys.argv[1]), preferred_port=int(sys.argv[2])) as broker:
        print(broker.pid, flush=True)
        await asked.wait()

if sys.argv[3] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""

GUARDED = """
import subprocess, sys
from pyoco_server.processes.lifeline import ProcessGuard
child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
guard = ProcessGuard(child.pid)
print(child.pid, flush=True)
sys.stdin.read()
"""

# A child whose parent dies after the fork and before the child has asked to be told.
FORK_RACE = """
import os, signal, sys
from pyoco_server.processes.lifeline import die_with_parent
bind = die_with_parent()
print(os.getpid(), flush=True)
if os.fork() == 0:
    first = os.getppid()
    os.kill(first, signal.SIGKILL)
    while os.getppid() == first:
        pass
    bind()
    print("survived", flush=True)
signal.pause()
"""

loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def first_number(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@loops
async def test_a_killed_parent_takes_its_server_along(
    run_script: RunScript,
    tmp_path: Path,
    free_port: int,
    eventually: Eventually,
    is_running: IsRunning,
    loop: str,
) -> None:
    parent = run_script(PARENT, tmp_path, free_port, loop)
    server_pid = first_number(parent)
    assert is_running(server_pid)
    parent.kill()
    await eventually(lambda: not is_running(server_pid))
    await eventually(lambda: recorded_broker_url(tmp_path) is None)  # the last of its threads has the lock


async def test_a_start_right_after_the_parent_was_killed_gets_folder_and_port(
    run_script: RunScript, make_broker: MakeBroker, tmp_path: Path, free_port: int
) -> None:
    parent = run_script(PARENT, tmp_path / "data", free_port, "asyncio")
    first_number(parent)
    parent.kill()
    parent.wait()
    async with make_broker() as broker:
        assert broker.port == free_port


@loops
@pytest.mark.skipif(not HAS_PDEATHSIG, reason="open files are seen in /proc")
def test_the_server_shares_the_lock_on_the_folder(
    run_script: RunScript, tmp_path: Path, free_port: int, loop: str
) -> None:
    server_pid = first_number(run_script(PARENT, tmp_path, free_port, loop))
    open_files = [file.resolve() for file in Path(f"/proc/{server_pid}/fd").iterdir()]
    assert tmp_path / "lock" in open_files


@loops
async def test_a_parent_that_stops_in_order_leaves_no_server_and_no_record(
    run_script: RunScript, tmp_path: Path, free_port: int, is_running: IsRunning, loop: str
) -> None:
    parent = run_script(PARENT, tmp_path, free_port, loop)
    server_pid = first_number(parent)
    assert recorded_broker_url(tmp_path) == f"nats://127.0.0.1:{free_port}"
    parent.terminate()
    assert await asyncio.to_thread(parent.wait, 10) == 0
    assert not is_running(server_pid)
    assert not (tmp_path / "broker.json").exists()


async def test_the_server_is_in_a_session_of_its_own_out_of_reach_of_ctrl_c(make_broker: MakeBroker) -> None:
    async with make_broker() as broker:
        assert broker.pid is not None
        assert os.getsid(broker.pid) == broker.pid
        assert os.getpgid(broker.pid) != os.getpgid(0)


def test_a_child_born_too_late_to_be_told_ends_itself(run_script: RunScript) -> None:
    parent = run_script(FORK_RACE)
    said, _ = parent.communicate(timeout=10)
    assert said.split() == [str(parent.pid)]
    assert parent.returncode == -signal.SIGKILL


async def test_where_the_kernel_does_not_help_a_guard_kills_the_child(
    run_script: RunScript, eventually: Eventually, is_running: IsRunning
) -> None:
    parent = run_script(GUARDED)
    child_pid = first_number(parent)
    assert is_running(child_pid)
    parent.kill()
    await eventually(lambda: not is_running(child_pid))


def test_a_released_guard_harms_nobody() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        ProcessGuard(child.pid).release()
        assert child.poll() is None
        child.kill()


async def test_a_broker_with_a_guard_stops_and_restarts_as_one_without(
    make_broker: MakeBroker, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.processes.lifeline.HAS_PDEATHSIG", False)
    async with make_broker() as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        await eventually(lambda: broker.restarts == 1)
