"""The TCP transport of nats-py, with other behaviour for broken connections and brokers that do not respond.

uvloop raises RuntimeError for a write to a closed connection. nats-py does not expect it and would stop to
reconnect; here it becomes ConnectionResetError.

What is received can be passed to a function at once (`deliver_to`). Otherwise each read wakes a task. With
TLS it always does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import ParseResult

from nats.aio.transport import TcpTransport

CLOSE_WITHIN_SEC = 2.0

# Gets what was received, returns what the task that reads the connection has to handle.
Take = Callable[[bytes], bytes]


class Transport(TcpTransport):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __bool__(self) -> bool:
        """nats-py replaces a transport that is false, as its own is before it is connected."""
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        loop = asyncio.get_running_loop()
        reader = _Reader(buffer_size, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        connecting = loop.create_connection(lambda: protocol, uri.hostname or "", uri.port or 0)
        transport, _ = await asyncio.wait_for(connecting, connect_timeout)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer

    def deliver_to(self, take: Take) -> None:
        """From now on, for this connection."""
        if isinstance(self._io_reader, _Reader):
            self._io_reader.take = take

    def write(self, payload: bytes) -> None:
        try:
            super().write(payload)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise ConnectionResetError(str(error)) from error

    def writelines(self, payload: list[bytes]) -> None:
        try:
            super().writelines(payload)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise ConnectionResetError(str(error)) from error

    def abort(self) -> None:
        """End the connection now. Data that was not sent is lost."""
        for writer in (self._io_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()

    async def wait_closed(self) -> None:
        """Closing sends the rest and, with TLS, waits for an answer: a frozen broker would block it."""
        try:
            async with asyncio.timeout(CLOSE_WITHIN_SEC):
                await super().wait_closed()  # type: ignore[no-untyped-call]
        except TimeoutError:
            self.abort()


class _Reader(asyncio.StreamReader):
    """Passes received bytes to `take` first, unless earlier ones still wait to be read."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.take: Take | None = None

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        if self.take is not None and not self._buffer:  # type: ignore[attr-defined]
            data = self.take(data)
        if data:
            super().feed_data(data)
