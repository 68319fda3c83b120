"""uvicorn's HTTP protocol, with head and body of an answer in one write.

It writes the head of an answer when it has one, and the body after it: two system calls, and the reader woken
twice, for every answer of a few hundred bytes. Here what is written in one step of the loop leaves together
at its end. `uvicorn … --http pyoco_server.http_api.one_write:OneWrite`; `pyoco-server up` uses it by itself.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# More is passed on at once: the transport has to know of it, to tell whoever writes faster than is read.
GATHERED_BYTES_MAX = 16 * 1024


class OneWrite(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, Gathered(transport))


class Gathered:
    """A transport whose writes wait for the end of the step; everything else is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._unsent: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._write_out)
        self._unsent.append(data)
        self._size += len(data)
        if self._size >= GATHERED_BYTES_MAX:
            self._write_out()

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
        if self._unsent:
            data = b"".join(self._unsent)
            self._unsent, self._size = [], 0
            self._transport.write(data)
