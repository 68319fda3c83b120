"""A TCP proxy on loopback between one process and one server: it loses, holds, slows and cuts what passes.

`partition` and `one_way` lose bytes. A connection that has lost some is reset when the network heals, as TCP
does when its retransmissions have failed. `stall` loses nothing: what was held is delivered later.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence
from enum import StrEnum

READ_BYTES_MAX = 64 * 1024
# A throttled way sends this many pieces a second.
PIECES_PER_SEC = 20
_LINGER_NONE = struct.pack("ii", 1, 0)


class Way(StrEnum):
    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class Treatment(StrEnum):
    PASS = "pass"
    HOLD = "hold"
    LOSE = "lose"


class _Connection:
    """Two sockets. `has_hole`: bytes of it were lost, so it cannot go on."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.writers = [client]
        self.has_hole = False

    def reset(self) -> None:
        for writer in self.writers:
            sock = writer.get_extra_info("socket")
            if sock is not None:
                with contextlib.suppress(OSError):  # closed already
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            writer.transport.abort()


class TcpProxy:
    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._treatments = dict.fromkeys(Way, Treatment.PASS)
        self._moved = asyncio.Event()
        self._bytes_per_sec: float | None = None
        self._connections: set[_Connection] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._listening = await asyncio.start_server(self._on_client, "127.0.0.1", port)
        self.port = int(self._listening.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self.cut()
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self._connections)

    def partition(self) -> None:
        """Nothing arrives on either side any more."""
        self._treat(Treatment.LOSE, *Way)

    def one_way(self, lost: Way) -> None:
        """What goes this way is lost; the other way works."""
        self._treat(Treatment.LOSE, lost)

    def stall(self) -> None:
        """Connections stay open and deliver nothing until healed; nothing is lost."""
        self._treat(Treatment.HOLD, *Way)

    def throttle(self, bytes_per_sec: float) -> None:
        self._bytes_per_sec = bytes_per_sec

    def cut(self) -> None:
        """Every connection ends by a reset. New ones are accepted."""
        for connection in tuple(self._connections):
            connection.reset()

    def heal(self) -> None:
        self._bytes_per_sec = None
        self._treat(Treatment.PASS, *Way)
        for connection in tuple(self._connections):
            if connection.has_hole:
                connection.reset()

    def _treat(self, treatment: Treatment, *ways: Way) -> None:
        for way in ways:
            self._treatments[way] = treatment
        self._moved.set()
        self._moved = asyncio.Event()

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._connections.add(connection)
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:  # no server there: as if the connect itself had been refused
            self._connections.discard(connection)
            connection.reset()
            return
        connection.writers.append(to_server)
        there = self._pump(connection, reader, to_server, Way.TO_SERVER)
        back = self._pump(connection, from_server, writer, Way.TO_CLIENT)
        pumps = [asyncio.create_task(there), asyncio.create_task(back)]
        self._pumps.update(pumps)
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._pumps.difference_update(pumps)
            self._connections.discard(connection)
            connection.reset()

    async def _pump(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        """Until one side ends. The end of a connection passes as its bytes do: not while they are held."""
        with contextlib.suppress(OSError):  # a reset by either side
            while True:
                data = await reader.read(self._piece_bytes)
                while self._treatments[way] is Treatment.HOLD:
                    await self._moved.wait()
                if self._treatments[way] is Treatment.LOSE:
                    connection.has_hole = True
                    if not data:
                        await asyncio.get_running_loop().create_future()
                    continue
                if not data:
                    return
                if self._bytes_per_sec is not None:
                    await asyncio.sleep(len(data) / self._bytes_per_sec)
                writer.write(data)
                await writer.drain()

    @property
    def _piece_bytes(self) -> int:
        if self._bytes_per_sec is None:
            return READ_BYTES_MAX
        return max(int(self._bytes_per_sec / PIECES_PER_SEC), 1)


class Link:
    """The way of one process to all servers that it knows: one proxy for each."""

    def __init__(self, server_ports: Sequence[int]) -> None:
        self.proxies = [TcpProxy(port) for port in server_ports]

    async def start(self) -> None:
        for proxy in self.proxies:
            await proxy.start()

    async def stop(self) -> None:
        for proxy in self.proxies:
            await proxy.stop()

    @property
    def url(self) -> str:
        return ",".join(proxy.url for proxy in self.proxies)

    def partition(self) -> None:
        for proxy in self.proxies:
            proxy.partition()

    def one_way(self, lost: Way) -> None:
        for proxy in self.proxies:
            proxy.one_way(lost)

    def stall(self) -> None:
        for proxy in self.proxies:
            proxy.stall()

    def throttle(self, bytes_per_sec: float) -> None:
        for proxy in self.proxies:
            proxy.throttle(bytes_per_sec)

    def cut(self) -> None:
        for proxy in self.proxies:
            proxy.cut()

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.heal()
