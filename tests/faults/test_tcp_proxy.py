"""The proxy does to a connection what it says, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.conftest import until
from tests.faults.tcp_proxy import TcpProxy, Way


class Echo:
    """A server that remembers what it was sent, and sends it back."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.port = 0

    async def on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                self.heard += data
                writer.write(data)
                await writer.drain()
        except OSError:
            return
        finally:
            writer.close()


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.heard = bytearray()
        self.ended: str | None = None
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65_536):
                self.heard += data
            self.ended = "closed"
        except ConnectionResetError:
            self.ended = "reset"

    async def close(self) -> None:
        self.writer.close()
        self._reading.cancel()


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[TcpProxy, Echo, Caller]]:
    echo = Echo()
    server = await asyncio.start_server(echo.on_client, "127.0.0.1", 0)
    proxy = TcpProxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    caller = Caller(*await asyncio.open_connection("127.0.0.1", proxy.port))
    try:
        yield proxy, echo, caller
    finally:
        await caller.close()
        await proxy.stop()
        server.close()


async def test_it_passes_bytes_both_ways() -> None:
    async with proxied() as (_, _, caller):
        caller.writer.write(b"hello")
        await until(lambda: caller.heard == b"hello")


async def test_a_partition_loses_bytes_and_healing_resets_the_connection() -> None:
    async with proxied() as (proxy, echo, caller):
        caller.writer.write(b"before ")
        await until(lambda: caller.heard == b"before ")
        proxy.partition()
        caller.writer.write(b"lost")
        await until(lambda: any(one.has_hole for one in proxy._connections))
        assert caller.ended is None
        proxy.heal()
        await until(lambda: caller.ended == "reset")
        assert bytes(echo.heard) == b"before "


@pytest.mark.parametrize(("lost", "server_hears"), [(Way.TO_SERVER, b""), (Way.TO_CLIENT, b"asked")])
async def test_one_way_loses_only_that_way(lost: Way, server_hears: bytes) -> None:
    async with proxied() as (proxy, echo, caller):
        proxy.one_way(lost)
        caller.writer.write(b"asked")
        await until(lambda: any(one.has_hole for one in proxy._connections))
        assert (bytes(echo.heard), bytes(caller.heard)) == (server_hears, b"")
        proxy.heal()
        await until(lambda: caller.ended == "reset")


async def test_a_stall_delivers_everything_later() -> None:
    async with proxied() as (proxy, echo, caller):
        await until(lambda: proxy.connections == 1)
        proxy.stall()
        caller.writer.write(b"held")
        await caller.writer.drain()
        late = Caller(*await asyncio.open_connection("127.0.0.1", proxy.port))
        late.writer.write(b"!")
        await asyncio.sleep(0.1)
        assert (bytes(echo.heard), caller.ended) == (b"", None)
        proxy.heal()
        await until(lambda: caller.heard == b"held" and late.heard == b"!")
        await late.close()


async def test_a_throttled_way_is_slow_and_whole() -> None:
    async with proxied() as (proxy, _, caller):
        proxy.throttle(20_000)
        begun = asyncio.get_running_loop().time()
        caller.writer.write(b"x" * 10_000)
        await until(lambda: len(caller.heard) == 10_000)
        assert asyncio.get_running_loop().time() - begun >= 0.5


async def test_a_cut_is_a_reset_and_new_connections_work() -> None:
    async with proxied() as (proxy, _, caller):
        caller.writer.write(b"a")
        await until(lambda: caller.heard == b"a")
        proxy.cut()
        await until(lambda: caller.ended == "reset")
        again = Caller(*await asyncio.open_connection("127.0.0.1", proxy.port))
        again.writer.write(b"b")
        await until(lambda: again.heard == b"b")
        await again.close()
