"""A complete installation on loopback for a measurement: broker, gateway and worker as separate processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal

from bench.http_client import Connection
from bench.processes import stat_of
from pyoco_server.broker import EmbeddedBroker
from pyoco_server.config import NatsBackendConfig
from pyoco_server.processes.scheduling import choose_scheduling, use_normal_scheduling

Durability = Literal["always", "interval"]
FLOWS = Path(__file__).with_name("flows.py")
TAG = "bench"
HTTP = "pyoco_server.http_api.server.protocol:HttpProtocol"  # the same as in `pyoco-server up`


class Stack:
    def __init__(
        self, broker: EmbeddedBroker, port: int, folder: Path, durability: Durability = "interval"
    ) -> None:
        self.broker = broker
        self.durability = durability
        self.port = port
        self._folder = folder
        self.worker_tags = [TAG]
        self.children: list[subprocess.Popen[bytes]] = []
        self.env = os.environ | {"PYOCO_NATS_URL": broker.url, "PYOCO_LOAD_DOTENV": "0"}
        # The measurements open a thousand streams from one address.
        self.env |= {"PYOCO_STREAMS_PER_CALLER": "100000", "PYOCO_STREAMS_MAX": "100000"}
        self.env |= {"PYOCO_READ_MODEL_PATH": str(folder / "read_model.sqlite")}
        self.seen = folder / "seen"
        self.env |= {"BENCH_SEEN": str(self.seen)}
        self.env |= {"PYOCO_HTTP_PORT": str(port), "PYOCO_LOG_LEVEL": "WARNING"}

    async def gateway(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "pyoco_server.http_api:create_app", "--factory"]
        command += ["--port", str(self.port), "--loop", "uvloop", "--http", HTTP]
        command += ["--no-access-log", "--no-proxy-headers", "--log-level", "warning"]
        with scheduled_as_by_up(self.durability):
            self._run(command)
        await self._until_ready()

    def worker(self, concurrency: int = 8) -> None:
        command = [sys.executable, "-m", "pyoco_server.cli.worker.main", "--worker-id", "bench"]
        command += ["--tags", ",".join(self.worker_tags), "--concurrency", str(concurrency)]
        self._run([*command, "--flow-resolver", f"{FLOWS}:resolve"])

    async def connect(self) -> Connection:
        return await Connection.open("127.0.0.1", self.port)

    def end(self) -> None:
        for child in self.children:
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            child.wait(20)

    def memory_mb(self) -> list[float]:
        return [_resident_mb(child.pid) for child in self.children]

    def processor_sec(self) -> list[float]:
        """Processor time of each process, in the order of their start. Other load hardly changes it."""
        stats = (stat_of(child.pid) for child in self.children)
        return [stat.own_sec if stat else 0.0 for stat in stats]

    def _run(self, command: list[str]) -> None:
        with (self._folder / "processes.log").open("ab") as log:
            self.children.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log))

    async def _until_ready(self) -> None:
        while True:
            try:
                connection = await self.connect()
                status, _ = await connection.get("/ready")
                connection.close()
                if status == 200:
                    return
            except OSError:
                assert self.children[-1].poll() is None, (self._folder / "processes.log").read_text()
            await asyncio.sleep(0.02)


@asynccontextmanager
async def stack(durability: Durability) -> AsyncIterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-") as folder:
        path = Path(folder)
        broker = EmbeddedBroker(data_dir=path / "data", durability=durability, preferred_port=free_port())
        async with AsyncExitStack() as running:
            with scheduled_as_by_up(durability):
                await running.enter_async_context(broker)
            started = Stack(broker, free_port(), path, durability)
            try:
                yield started
            finally:
                started.end()


@contextmanager
def scheduled_as_by_up(durability: Durability) -> Iterator[None]:
    """Processes that are started here inherit the scheduling class that `pyoco-server up` would give them."""
    choose_scheduling(NatsBackendConfig(durability=durability), has_broker=True)
    try:
        yield
    finally:
        use_normal_scheduling()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
