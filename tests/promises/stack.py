"""Gateways and workers as processes of their own, because that is how they are killed in life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx

from pyoco_server.config import NatsBackendConfig, as_written, default_of, field_names, variable_of
from tests.cli.nursery import Process, can_start, the_nursery
from tests.conftest import free_port, until
from tests.promises.flows import FOOTPRINTS

FLOWS = Path(__file__).with_name("flows.py")
SKEWED_CLOCK = Path(__file__).with_name("skewed_clock")
MODULES = {"pyoco-worker": "pyoco_server.cli.worker.main", "uvicorn": "uvicorn"}


class Processes:
    """What a test started, and ends, by its id."""

    def __init__(self, config: NatsBackendConfig, folder: Path) -> None:
        self.config = config
        self.footprints = folder / "footprints"
        self._folder = folder
        self._running: list[Process] = []
        self._env = os.environ | environment_of(config) | {FOOTPRINTS: str(self.footprints)}

    def gateway(self, *, clock_ahead_sec: float = 0.0, settings: dict[str, str] | None = None) -> Gateway:
        """`settings`: environment variables of this process alone."""
        port = free_port()
        gateway = Gateway(self, port, self._skewed(clock_ahead_sec) | (settings or {}))
        gateway.start()
        return gateway

    def worker(
        self,
        worker_id: str,
        *,
        tags: str = "default",
        concurrency: int = 4,
        clock_ahead_sec: float = 0.0,
        flows: Path = FLOWS,
        settings: dict[str, str] | None = None,
    ) -> Process:
        command = ["pyoco-worker", "--worker-id", worker_id, "--tags", tags]
        command += ["--flow-resolver", f"{flows}:resolve", "--concurrency", str(concurrency)]
        own = self._skewed(clock_ahead_sec) | (settings or {})
        return self.run(command, f"worker-{worker_id}", own)

    def run(self, command: list[str], name: str, settings: dict[str, str] | None = None) -> Process:
        """`command`: a console script and its arguments."""
        with (self._folder / f"{name}.log").open("ab") as log:
            process = self._begun(command, settings or {}, log)
        self._running.append(process)
        return process

    def _begun(self, command: list[str], settings: dict[str, str], log: IO[bytes]) -> Process:
        script, *arguments = command
        env = self._env | settings
        if can_start(script, arguments, settings):
            # As with `python -m`, modules are imported from this folder too.
            named = [str(Path.cwd() / script), *arguments]
            return the_nursery().start(
                named, folder=Path.cwd(), environment=env, stdout=log.fileno(), stderr=log.fileno()
            )
        return subprocess.Popen(
            [sys.executable, "-m", MODULES[script], *arguments], env=env, stdout=log, stderr=log
        )

    def _skewed(self, clock_ahead_sec: float) -> dict[str, str]:
        if not clock_ahead_sec:
            return {}
        path = os.pathsep.join(filter(None, (str(SKEWED_CLOCK), self._env.get("PYTHONPATH"))))
        return {"TEST_CLOCK_AHEAD_SEC": str(clock_ahead_sec), "PYTHONPATH": path}

    def end_all(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGCONT)  # one that is paused would never hear of its end
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Gateway:
    def __init__(self, processes: Processes, port: int, settings: dict[str, str]) -> None:
        self._processes = processes
        self._settings = settings
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.process: Process | None = None

    def start(self) -> None:
        command = ["uvicorn", "pyoco_server.http_api:create_app", "--factory"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--log-level", "warning"]
        self.process = self._processes.run(command, f"gateway-{self.port}", self._settings)

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
