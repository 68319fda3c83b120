"""Gateways and workers as processes of their own, because that is how they are killed in life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from pyoco_server.config import NatsBackendConfig, as_written, default_of, field_names, variable_of
from tests.conftest import free_port, until

FLOWS = Path(__file__).with_name("flows.py")


class Processes:
    """What a test started, and ends, by its id."""

    def __init__(self, config: NatsBackendConfig, folder: Path) -> None:
        self.config = config
        self.footprints = folder / "footprints"
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._env = os.environ | environment_of(config) | {"PYOCO_TEST_FOOTPRINTS": str(self.footprints)}

    def gateway(self) -> Gateway:
        port = free_port()
        gateway = Gateway(self, port)
        gateway.start()
        return gateway

    def worker(
        self, worker_id: str, *, tags: str = "default", concurrency: int = 4
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pyoco_server.cli.worker", "--worker-id", worker_id, "--tags", tags]
        command += ["--flow-resolver", f"{FLOWS}:resolve", "--concurrency", str(concurrency)]
        return self.run(command, f"worker-{worker_id}")

    def run(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, env=self._env, stdout=log, stderr=log)
        self._running.append(process)
        return process

    def end_all(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Gateway:
    def __init__(self, processes: Processes, port: int) -> None:
        self._processes = processes
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "pyoco_server.http_api:create_app", "--factory"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--log-level", "warning"]
        self.process = self._processes.run(command, f"gateway-{self.port}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    async def ready(self) -> None:
        async with httpx.AsyncClient(base_url=self.url) as client:
            await until(lambda: _is_ready(client), within_sec=30)


@contextmanager
def processes(config: NatsBackendConfig, folder: Path) -> Iterator[Processes]:
    started = Processes(config, folder)
    try:
        yield started
    finally:
        started.end_all()


def environment_of(config: NatsBackendConfig) -> dict[str, str]:
    changed = (name for name in field_names() if getattr(config, name) != default_of(name))
    settings = {variable_of(name): as_written(getattr(config, name)) for name in changed}
    return settings | {"PYOCO_LOAD_DOTENV": "0"}


async def _is_ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/ready")).status_code == 200
    except httpx.HTTPError:
        return False
