"""Shared fixtures: one real nats-server per test process, and separate names for each test."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pyoco_server.broker import find_nats_server
from pyoco_server.config import NatsBackendConfig
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.ordering import arrange
from tests.sweeping import remove_streams


def pytest_configure() -> None:
    _keep_bytecode()
    # No test connects to a public address. Each HTTP client would read the certificates of all authorities.
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    os.environ.pop("SSL_CERT_FILE", None)
    # Thousands of tests are collected, and none of that is garbage.
    gc.disable()
    # A background job of a shell ignores interrupts, and so would every process that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep_bytecode() -> None:
    """Images for containers switch it off. Hundreds of processes would each compile every module again."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    # A gateway does the same when it has started. In a process with hundreds of gateways, nothing of those
    # before it would be collected: the process grows, and asyncio searches ever more tasks after every test.
    gc.freeze = lambda: None


# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A test with one of these fixtures needs other processes.
HEAVY_FIXTURES = {"nats_server", "own_nats_server", "programs", "shared_programs", "make_broker", "browser"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if HEAVY_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("heavy")
    if (processes := getattr(config, "workerinput", {}).get("workercount", 1)) > 1:
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = arrange(slow, [item for item in items if item not in slow], processes)


# The broker makes and removes thousands of streams: with this it looks for garbage a quarter as often.
COLLECT_SELDOM = {"GOGC": "400"}


class NatsServer:
    """A nats-server for tests that can be killed and restarted with the same port and data."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self.url = f"nats://127.0.0.1:{port}"
        # Environments that tests have on it.
        self.configs: list[NatsBackendConfig] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(find_nats_server()), "-a", "127.0.0.1", "-p", str(self.port), "-js"]
        command += ["-sd", str(self._folder), "-l", str(self._folder / "log")]
        self._process = subprocess.Popen(command, env=os.environ | COLLECT_SELDOM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, sig: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(sig)
            self._process.wait(10)
            self._process = None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# A file system in memory, and how much room it must have to be used: the broker sets aside what streams may
# grow to.
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 * 2**30


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Shared: not for tests that kill it."""
    with _folder_in_memory() as in_memory:
        server = NatsServer(in_memory or tmp_path_factory.mktemp("nats"), free_port())
        server.start()
        yield server
        server.stop()


@contextmanager
def _folder_in_memory() -> Iterator[Path | None]:
    """In memory if possible: every test creates and removes files of streams, which is slow on a disk."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < MEMORY_BYTES_MIN:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pyoco-tests-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def own_nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """For tests that kill, pause or restart it."""
    folder = tmp_path / "nats"
    folder.mkdir()
    server = NatsServer(folder, free_port())
    server.start()
    yield server
    server.resume() if server._process else None
    server.stop()


def config_for(server: NatsServer, **changes: Any) -> NatsBackendConfig:
    """A configuration with unique names on a shared server."""
    name = f"t{secrets.token_hex(5)}"
    names: dict[str, Any] = {
        "nats_url": server.url,
        "work_stream": f"{name}_WORK",
        "work_subject_prefix": f"{name}.work",
        "dlq_stream": f"{name}_DLQ",
        "dlq_subject_prefix": f"{name}.dlq",
        "runs_kv_bucket": f"{name}_runs",
        "workers_kv_bucket": f"{name}_workers",
        "auth_kv_bucket": f"{name}_auth",
        "wheel_object_store_bucket": f"{name}_wheels",
        "wheel_history_kv_bucket": f"{name}_wheel_history",
        # The broker reserves this much for each stream with a limit.
        "dlq_max_bytes": 1_048_576,
        "log_max_bytes": 8_388_608,
    }
    config = NatsBackendConfig(**(names | changes))
    server.configs.append(config)
    return config


@pytest.fixture(autouse=True)
def _swept(request: pytest.FixtureRequest) -> Iterator[None]:
    """Streams of fixtures with a wider scope are kept, because those fixtures are created first."""
    server = request.getfixturevalue("nats_server") if "nats_server" in request.fixturenames else None
    before = len(server.configs) if server is not None else 0
    yield
    if server is not None and server.configs[before:]:
        remove_streams(server.port, server.configs[before:])
        del server.configs[before:]


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server)


@pytest.fixture
async def store(config: NatsBackendConfig) -> AsyncIterator[Store]:
    opened = await Store.connect(config, name="test")
    yield opened
    await opened.close()


@pytest.fixture
async def read_model(store: Store) -> AsyncIterator[ReadModel]:
    model = ReadModel(store.client, store.jetstream, store.config)
    await model.start()
    yield model
    await model.stop()


async def until(
    condition: Callable[[], Awaitable[object] | object], *, within_sec: float = 20.0, every_sec: float = 0.01
) -> object:
    """Wait until a condition is truthy and return its value. Fails after a deadline."""
    deadline = asyncio.get_running_loop().time() + within_sec
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true in time"
        await asyncio.sleep(every_sec)
