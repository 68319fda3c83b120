"""The TCP transport of nats-py, with other behaviour for broken connections and brokers that do not respond.

uvloop raises RuntimeError for a write to a closed connection. nats-py does not expect it and would stop to
reconnect; here it becomes ConnectionResetError.
"""

from __future__ import annotations

import asyncio

from nats.aio.transport import TcpTransport

CLOSE_WITHIN_SEC = 2.0


class Transport(TcpTransport):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __bool__(self) -> bool:
        """nats-py replaces a transport that is false, as its own is before it is connected."""
        return True

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
