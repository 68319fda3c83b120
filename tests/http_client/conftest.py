"""A real gateway and a worker with the demo flows, on a loop of their own: the client under test blocks."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn

from pyoco_server.config import NatsBackendConfig
from pyoco_server.flows import demo
from pyoco_server.http_api import create_app
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.worker import PyocoNatsWorker
from tests.conftest import NatsServer, config_for, until


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Stack:
    """Gateway and worker, until `stop`."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._config = config
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(20)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(20)

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        app = create_app(self._config)
        server = _Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        worker = await PyocoNatsWorker.connect(
            self._config, flow_resolver=demo.resolver, worker_id="w", tags=["demo"], concurrency=4
        )
        tasks = [
            asyncio.ensure_future(server.serve(sockets=[self._socket])),
            asyncio.ensure_future(worker.serve()),
        ]
        await until(lambda: server.started and app.state.gateway.ready()["ready"])
        self._ready.set()
        await self._stopping.wait()
        server.should_exit = True
        worker.stop()
        await asyncio.wait(tasks, timeout=5)
        await worker.close()


@pytest.fixture(scope="module")
def stack(nats_server: NatsServer) -> Iterator[Stack]:
    running = Stack(config_for(nats_server))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def client(stack: Stack) -> Iterator[PyocoHttpClient]:
    with PyocoHttpClient(stack.url) as connected:
        yield connected
