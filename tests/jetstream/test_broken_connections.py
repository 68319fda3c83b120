"""A connection that breaks at a bad moment is made again; none is waited for that is dead."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pyoco_server.errors import Unavailable
from pyoco_server.jetstream import client as client_module
from pyoco_server.jetstream import requests as requests_module
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, free_port, until
from tests.faults.tcp_proxy import TcpProxy, Way

PENDING_BYTES = 512 * 1024


class Breaking(BrokerClient):
    """Its connection breaks between the broker's greeting and our answer, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def _process_info(self, info: Any, initial_connection: bool = False) -> None:
        await super()._process_info(info, initial_connection)
        if initial_connection and self.times > 0:
            self.times -= 1
            await broken(self)


async def broken(client: BrokerClient) -> None:
    transport: Any = client._transport
    transport._io_writer.transport.abort()
    await asyncio.sleep(0.01)


def in_uvloop(test: Coroutine[Any, Any, None]) -> None:
    """As gateways and workers run: there a write to a closed connection raises RuntimeError."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(test, 30))


def test_a_connection_that_breaks_while_it_is_made_is_made_again(nats_server: NatsServer) -> None:
    async def connects() -> None:
        store = await Store.connect(config_for(nats_server), name="test", make_client=lambda: Breaking(2))
        assert store.is_connected
        await store.close()

    in_uvloop(connects())


def test_a_connection_that_breaks_while_it_is_made_again_is_made_again(nats_server: NatsServer) -> None:
    async def reconnects() -> None:
        client = Breaking(0)
        store = await Store.connect(config_for(nats_server), name="test", make_client=lambda: client)
        client.times = 2
        await broken(client)
        await until(lambda: client.times == 0 and store.reconnects == 1, within_sec=10)
        assert store.is_connected
        await store.close()

    in_uvloop(reconnects())


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[NatsServer]]:
    """Two that know nothing of each other: enough to be connected to."""
    started = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        started.append(NatsServer(tmp_path / name, free_port()))
        started[-1].start()
    yield started
    for server in started:
        server.resume()
        server.stop()


@asynccontextmanager
async def reached(url: str, proxy: TcpProxy | None = None) -> AsyncIterator[Store]:
    """Connected, and nothing made there."""
    store = Store(config_for(NatsServer(Path(), 0), nats_url=url), name="test")
    assert await store.reach()
    try:
        yield store
    finally:
        if proxy is not None:
            proxy.heal()
        await store.close()


@asynccontextmanager
async def proxied(server: NatsServer) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(server.port)
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.mark.slow
async def test_a_frozen_server_is_left_for_another_within_seconds(servers: list[NatsServer]) -> None:
    async with reached(",".join(server.url for server in servers)) as store:
        port = _port(store)
        frozen = next(server for server in servers if server.port == port)
        frozen.pause()
        await until(lambda: store.reconnects == 1, within_sec=8)
        assert _port(store) != port


async def test_a_server_that_answers_pings_but_no_request_is_left_for_another(
    servers: list[NatsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is cut off from the rest of its cluster."""
    monkeypatch.setattr(requests_module, "SILENT_SEC_MAX", 0.5)
    async with reached(",".join(server.url for server in servers)) as store:
        store.requests._timeout_sec = 0.1
        port = _port(store)
        await store.client.listen("void", lambda *_: None)

        async def is_left() -> bool:
            with contextlib.suppress(Unavailable):
                await store.requests.ask("void")
            return store.reconnects == 1

        await until(is_left)
        assert _port(store) != port


async def test_a_server_that_answers_some_requests_is_not_left(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "SILENT_SEC_MAX", 1.0)
    losses: list[str] = []
    async with reached(f"{nats_server.url},nats://127.0.0.1:{free_port()}") as store:
        store.on_loss(lambda: losses.append("lost"))
        patient_sec = store.requests._timeout_sec
        await store.client.listen("void", lambda *_: None)
        end = asyncio.get_running_loop().time() + 2.5
        while asyncio.get_running_loop().time() < end:
            store.requests._timeout_sec = 0.1
            with contextlib.suppress(Unavailable):
                await store.requests.ask("void")
            store.requests._timeout_sec = patient_sec
            await store.jetstream.api("INFO")
        assert losses == []


async def test_a_client_that_is_busy_for_long_is_not_taken_for_disconnected(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PING_INTERVAL_SEC", 0.05)
    losses: list[str] = []
    async with reached(nats_server.url) as store:
        store.on_loss(lambda: losses.append("lost"))
        for _ in range(10):
            _block(0.3)
            await asyncio.sleep(0.06)
        assert losses == []


async def test_a_pong_behind_many_messages_is_waited_for(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow reader with a long queue: the broker is alive, as every message shows."""
    monkeypatch.setattr(client_module, "PING_INTERVAL_SEC", 0.05)
    losses: list[str] = []
    async with reached(nats_server.url) as store, reached(nats_server.url) as other:
        store.on_loss(lambda: losses.append("lost"))
        heard = 0

        def slow(*_: bytes) -> None:
            nonlocal heard
            heard += 1
            time.sleep(0.0005)

        await store.client.listen("flood", slow)
        await store.client.flush()
        for _ in range(1_000):
            other.client.send("flood", b"x" * 200)
        await until(lambda: heard == 1_000)
        assert losses == []


async def test_a_server_that_is_heard_but_hears_nothing_is_given_up(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PING_INTERVAL_SEC", 0.05)
    async with (
        proxied(nats_server) as proxy,
        reached(nats_server.url) as other,
        reached(proxy.url, proxy) as store,
    ):
        await store.client.listen("beat", lambda *_: None)
        await store.client.flush()
        proxy.one_way(Way.TO_SERVER)

        def is_given_up() -> bool:
            other.client.send("beat", b"")
            return not store.is_connected

        await until(is_given_up)


async def test_what_a_frozen_server_does_not_take_delays_no_reconnect(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PING_INTERVAL_SEC", 0.05)
    async with proxied(nats_server) as proxy:
        store = Store(config_for(nats_server, nats_url=f"{proxy.url}"), name="test")
        assert await store.reach()
        proxy.stall()
        await _fill(store)
        losses: list[str] = []
        store.on_loss(lambda: losses.append("lost"))
        await until(lambda: losses)
        proxy.heal()
        await until(lambda: store.reconnects == 1)
        await store.close()


async def test_what_a_frozen_server_does_not_take_delays_no_close(nats_server: NatsServer) -> None:
    async with proxied(nats_server) as proxy:
        store = Store(config_for(nats_server, nats_url=proxy.url), name="test")
        assert await store.reach()
        proxy.stall()
        await _fill(store)
        async with asyncio.timeout(8):
            await store.close()


def _port(store: Store) -> int | None:
    url = store.client.connected_url
    return url.port if url is not None else None


def _block(sec: float) -> None:
    """What user code or a large answer does to the loop."""
    time.sleep(sec)


async def _fill(store: Store) -> None:
    """More than the sockets on the way have room for."""
    transport: Any = store.client._transport
    while transport._io_writer.transport.get_write_buffer_size() < PENDING_BYTES:
        store.client.send("nowhere", b"x" * PENDING_BYTES)
        await asyncio.sleep(0)
