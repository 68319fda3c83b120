"""uvicorn's HTTP protocol, with head and body of an answer in one write.

It writes the head of an answer when it has one, and the body after it: two system calls, and the reader woken
twice, for every answer of a few hundred bytes. Here the head waits for the body, which nearly always follows
in the same step of the loop; a head that is alone leaves at the end of the step.
`uvicorn … --http pyoco_server.http_api.one_write:OneWrite`; `pyoco-server up` uses it by itself.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/"


class OneWrite(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, Joined(transport))


class Joined:
    """A transport that keeps a head back until its body comes; everything else is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            self._head = data
            asyncio.get_running_loop().call_soon(self._write_out)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._write_out()
        self._transport.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another protocol takes over, which writes to the transport itself."""
        self._write_out()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _write_out(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
