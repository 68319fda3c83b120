"""A transport that buffers the head of a response until its body is written.

uvicorn writes head and body separately: two system calls for every small response, and the client wakes up
twice. The body nearly always follows in the same iteration of the event loop; otherwise the head is written
at its end.
"""

from __future__ import annotations

import asyncio
from typing import Any

_HEAD = b"HTTP/"


class HeadBufferingTransport:
    """Delegates everything but writing to the transport."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._write_pending)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._write_pending()
        self._transport.close()

    def write_eof(self) -> None:
        self._write_pending()
        self._transport.write_eof()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """After an upgrade the new protocol writes to the transport directly."""
        self._write_pending()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _write_pending(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
