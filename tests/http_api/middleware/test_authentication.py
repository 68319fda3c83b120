"""The door itself: streams that outlive their key, sockets, and a path before ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware.authentication import Authentication
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.credentials import Authenticators
from pyoco_server.operations.identity.api_keys import revoke_key
from pyoco_server.operations.identity.authenticate import KeyCheck
from pyoco_server.operations.identity.callers import ANONYMOUS, Caller
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.keyring import id_of, new_key
from tests.worker.stage import config_on


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, http_auth_mode="api_key")


class House:
    """A door with rooms behind it that say who came in."""

    def __init__(self, keys: KeyCheck, config: NatsBackendConfig) -> None:
        self.keys = keys
        self.news: asyncio.Queue[bytes] = asyncio.Queue()
        self.callers: list[Caller] = []
        rooms = [
            Route("/runs/stream", self._stream),
            Route("/runs/file", self._file),
            Route("/health", self._health),
            WebSocketRoute("/runs/socket", self._socket),
        ]
        self.door = Authentication(Starlette(routes=rooms), config, Authenticators(keys))

    async def _stream(self, request: Request) -> Response:
        self.callers.append(caller_of(request))
        return StreamingResponse(self._pieces(99), media_type="text/event-stream")

    async def _file(self, request: Request) -> Response:
        return StreamingResponse(self._pieces(2), headers={"Content-Length": "2"})

    async def _health(self, request: Request) -> Response:
        self.callers.append(caller_of(request))
        return Response("ok")

    async def _socket(self, socket: WebSocket) -> None:
        self.callers.append(caller_of(socket))
        await socket.accept()
        await socket.close()

    async def _pieces(self, count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield await self.news.get()


@asynccontextmanager
async def a_house(store: Store) -> AsyncIterator[House]:
    keys = KeyCheck(store)
    await keys.start()
    await until(lambda: keys.table.is_current)
    yield House(keys, store.config)
    await keys.stop()


async def get(house: House, path: str, key: str = "", root_path: str = "") -> httpx.Response:
    transport = httpx.ASGITransport(app=house.door, root_path=root_path)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", timeout=30) as client:
        return await client.get(path, headers={"X-API-Key": key})


async def test_a_stream_ends_with_its_key_and_nothing_leaves_after(store: Store) -> None:
    async with a_house(store) as house:
        key = await new_key(store)
        await until(lambda: house.keys.table.find(id_of(key)))
        reading = asyncio.create_task(get(house, "/runs/stream", key))
        await house.news.put(b"before ")
        await until(lambda: house.news.empty() and house.callers)
        await revoke_key(store, id_of(key))
        await until(lambda: not house.keys.still_good(house.callers[0]))
        for _ in range(3):
            await house.news.put(b"after ")
        async with asyncio.timeout(10):
            assert (await reading).content == b"before "


async def test_an_answer_with_a_length_is_finished(store: Store) -> None:
    """Half a file would be an error of its own; what was asked for was allowed."""
    async with a_house(store) as house:
        key = await new_key(store)
        await until(lambda: house.keys.table.find(id_of(key)))
        reading = asyncio.create_task(get(house, "/runs/file", key))
        await house.news.put(b"1")
        await until(house.news.empty)
        await revoke_key(store, id_of(key))
        await until(lambda: (found := house.keys.table.find(id_of(key))) and found.record.is_revoked())
        await house.news.put(b"2")
        async with asyncio.timeout(10):
            assert (await reading).content == b"12"


async def test_a_socket_needs_a_key_as_well(store: Store) -> None:
    async with a_house(store) as house:
        key = await new_key(store)
        await until(lambda: house.keys.table.find(id_of(key)))
        assert [m["type"] for m in await _knock(house, [])] == [
            "websocket.http.response.start",
            "websocket.http.response.body",
        ]
        assert house.callers == []
        accepted = await _knock(house, [(b"x-api-key", key.encode())])
        assert [m["type"] for m in accepted] == ["websocket.accept", "websocket.close"]
        assert house.callers == [Caller(tenant_id="acme", id=id_of(key))]


async def _knock(house: House, headers: list[tuple[bytes, bytes]]) -> list[Message]:
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": "/runs/socket",
        "root_path": "",
        "headers": headers,
        "query_string": b"",
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await house.door(scope, receive, send)
    return sent


async def test_a_path_that_a_proxy_puts_before_ours_changes_nothing(store: Store) -> None:
    async with a_house(store) as house:
        reader = await new_key(store, scopes=("runs:read",))
        await until(lambda: house.keys.table.find(id_of(reader)))
        assert (await get(house, "/pyoco/health", root_path="/pyoco")).status_code == 200
        assert house.callers == [ANONYMOUS]
        assert (await get(house, "/pyoco/runs/none", root_path="/pyoco")).status_code == 401
        assert (await get(house, "/pyoco/runs/none", reader, root_path="/pyoco")).status_code == 404
        assert (await get(house, "/pyoco/health")).status_code == 401
        assert (await get(house, "/pyocohealth", root_path="/pyoco")).status_code == 401
