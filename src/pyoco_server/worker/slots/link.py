"""The worker's ends of what connects it to a slot: a socket for messages, and pipes for stdout and stderr.

Every message is handled where it is read, without an asyncio task: a run of one quick task has four messages.
The pipes are what native code and processes of the slot write to. The worker holds their reading ends, so
that the last lines of a killed process are not lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import cast

from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.capture import LineBuffer

READ_BYTES = 64 * 1024


class Link(asyncio.Protocol):
    """Whole messages in order, and a callback when the link ends."""

    def __init__(self, on_message: Callable[[m.FromSlot], None], on_end: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._reader = m.worker_reader()
        self._unsent: list[bytes] = []
        self.reads = 0  # of any number of messages

    def send(self, message: m.ToSlot) -> None:
        """What is sent in one step of the event loop leaves in one write: the slot wakes up once for it."""
        if not self._unsent:
            self._loop.call_soon(self._write)
        self._unsent.append(m.frame(message))

    def _write(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))

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
        self.reads += 1
        for message in self._reader.read(data):
            self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class PipeReader:
    """The slot's stdout or stderr. `reader`: of a pipe whose writing end another process has already."""

    def __init__(
        self, stream: str, on_lines: Callable[[str, list[str]], None], reader: int | None = None
    ) -> None:
        self._stream = stream
        self._on_lines = on_lines
        self._buffer = LineBuffer()
        self._reader, self.writer = os.pipe() if reader is None else (reader, -1)
        os.set_blocking(self._reader, False)

    def open(self) -> None:
        """The process was started: close this process's copy of its end."""
        self._close_writer()
        asyncio.get_running_loop().add_reader(self._reader, self.drain)

    def drain(self) -> None:
        while self._reader >= 0:
            try:
                data = os.read(self._reader, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            if lines := self._buffer.add(data):
                self._on_lines(self._stream, lines)

    def end_line(self) -> None:
        """The run has ended: its incomplete line is complete now."""
        self.drain()
        if lines := self._buffer.take_rest():
            self._on_lines(self._stream, lines)

    def close(self) -> None:
        if self._reader >= 0:
            asyncio.get_running_loop().remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1
        self._close_writer()

    def _close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1
