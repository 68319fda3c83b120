"""What the broker's tests share: free ports, brokers that are always stopped, and waiting on conditions."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from pyoco_server.broker import Durability, EmbeddedBroker

DEADLINE_SEC = 15.0

Eventually = Callable[[Callable[[], object]], Awaitable[None]]
IsRunning = Callable[[int], bool]


class MakeBroker(Protocol):
    def __call__(
        self,
        *,
        data_dir: Path = ...,
        durability: Durability = ...,
        preferred_port: int = ...,
        ready_timeout_sec: float = ...,
        restart_backoff_max_sec: float = ...,
        on_restart: Callable[[], None] | None = ...,
    ) -> EmbeddedBroker: ...


class RunScript(Protocol):
    def __call__(self, code: str, *arguments: object) -> subprocess.Popen[str]: ...


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def is_running() -> IsRunning:
    def running(pid: int) -> bool:
        try:
            os.kill(pid, 0)
            # A dead child nobody has waited for yet is no longer running; it may go while we look.
            stat = Path(f"/proc/{pid}/stat")
            return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
        except (ProcessLookupError, FileNotFoundError):
            return False

    return running


@pytest.fixture
def eventually() -> Eventually:
    async def wait_for(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_SEC
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            await asyncio.sleep(0.005)

    return wait_for


@pytest.fixture
async def make_broker(tmp_path: Path, free_port: int, is_running: IsRunning) -> AsyncIterator[MakeBroker]:
    made: list[EmbeddedBroker] = []

    def make(
        *,
        data_dir: Path = tmp_path / "data",
        durability: Durability = "always",
        preferred_port: int = free_port,
        ready_timeout_sec: float = 10.0,
        restart_backoff_max_sec: float = 5.0,
        on_restart: Callable[[], None] | None = None,
    ) -> EmbeddedBroker:
        broker = EmbeddedBroker(
            data_dir=data_dir,
            durability=durability,
            preferred_port=preferred_port,
            ready_timeout_sec=ready_timeout_sec,
            restart_backoff_max_sec=restart_backoff_max_sec,
            on_restart=on_restart,
        )
        made.append(broker)
        return broker

    yield make
    for broker in made:
        pid = broker.pid
        await broker.stop()
        assert pid is None or not is_running(pid)


@pytest.fixture
def run_script() -> Iterator[RunScript]:
    """Run Python code as a process of its own, killed at the end if it still lives."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        # A pipe: a script that waits for the end of its input waits for the end of the test.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
