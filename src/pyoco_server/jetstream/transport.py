"""nats-py's TCP transport, but for what happens when the connection is broken or its other end is frozen.

uvloop raises RuntimeError for a write to a closed connection. nats-py does not expect that one, and would
stop connecting; here it is what it means, a connection that was lost.
"""

from __future__ import annotations

import asyncio

from nats.aio.transport import TcpTransport

CLOSE_WITHIN_SEC = 2.0


class Transport(TcpTransport):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __bool__(self) -> bool:
        """nats-py replaces one that is false, as its own is before it is connected."""
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
        """End the connection now. What was not sent is lost, and nothing is waited for."""
        for writer in (self._io_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()

    async def wait_closed(self) -> None:
        """Closing sends what is left, and with TLS waits for an answer. A frozen broker takes neither."""
        try:
            async with asyncio.timeout(CLOSE_WITHIN_SEC):
                await super().wait_closed()  # type: ignore[no-untyped-call]
        except TimeoutError:
            self.abort()
