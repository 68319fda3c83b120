"""A gateway on a port of its own, in this very loop: for answers that come piece by piece."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import httpx
import uvicorn

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.gateway import Gateway
from tests.conftest import until


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Live(NamedTuple):
    client: httpx.AsyncClient
    gateway: Gateway
    port: int


@asynccontextmanager
async def live(
    config: NatsBackendConfig, *, wait_ready: bool = True, http: Any = "httptools", **options: Any
) -> AsyncIterator[Live]:
    app = create_app(config)
    listening = socket.create_server(("127.0.0.1", 0))
    # asyncio does this for sockets that it makes itself; without it every other answer comes 40 ms later.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = listening.getsockname()[1]
    options = {"log_config": None, "timeout_graceful_shutdown": 1} | options
    server = _Server(uvicorn.Config(app, http=http, **options))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    gateway: Gateway = app.state.gateway
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            await until(lambda: server.started and (not wait_ready or gateway.ready()["ready"]))
            yield Live(client, gateway, port)
    finally:
        gateway.streams.end()
        server.should_exit = True
        await serving


class Event(NamedTuple):
    name: str
    data: Any
    id: str | None

    @property
    def status(self) -> str:
        return str(self.data["snapshot"]["status"])


async def blocks(answer: httpx.Response) -> AsyncIterator[str]:
    """What stands between two empty lines."""
    waiting = ""
    async for text in answer.aiter_text():
        *whole, waiting = (waiting + text).split("\n\n")
        for block in whole:
            yield block
    assert waiting == ""


async def events(answer: httpx.Response) -> AsyncIterator[Event]:
    """All but the `retry:` line, after checking that it comes first."""
    assert answer.status_code == 200
    opening = True
    async for block in blocks(answer):
        if opening:
            assert block == "retry: 1000"
            opening = False
            continue
        yield parsed(block)


def parsed(block: str) -> Event:
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    assert set(fields) <= {"event", "id", "data"}
    return Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
