"""The worker's end of a slot's socket: whole messages in order, and a callback when the link ends.

Every message is handled where it is read, without an asyncio task: a run of one quick task has four messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from pyoco_server.worker.slots import messages as m


class Link(asyncio.Protocol):
    def __init__(self, on_message: Callable[[m.FromSlot], None], on_end: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._reader = m.worker_reader()

    def send(self, message: m.ToSlot) -> None:
        if self._transport is not None:
            self._transport.write(m.frame(message))

    def hold(self, *, reading: bool) -> None:
        """Stop or resume reading: a slot whose messages are not read has to wait."""
        if self._transport is not None and self._transport.is_reading() != reading:
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for message in self._reader.read(data):
            self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()
