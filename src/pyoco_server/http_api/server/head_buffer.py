"""A transport that keeps the head of an answer back until its body comes.

uvicorn writes the head when it has one, and the body after it: two system calls, and the reader woken twice,
for every answer of a few hundred bytes. The body nearly always follows in the same step of the loop; a head
that is alone leaves at the end of the step.
"""

from __future__ import annotations

import asyncio
from typing import Any

_HEAD = b"HTTP/"


class HeadBufferingTransport:
    """Everything but writing is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            self._head = data
            asyncio.get_running_loop().call_soon(self._write_pending)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._write_pending()
        self._transport.close()

    def write_eof(self) -> None:
        self._write_pending()
        self._transport.write_eof()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another protocol takes over, which writes to the transport itself."""
        self._write_pending()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _write_pending(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
