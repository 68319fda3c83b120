"""Reads a slot's stdout and stderr: what native code and processes of the slot write there.

The worker holds the reading ends, so that the last lines of a killed process are not lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from pyoco_server.worker.slots.capture import LineBuffer

READ_BYTES = 64 * 1024


class PipeReader:
    """One of the two streams."""

    def __init__(self, stream: str, on_lines: Callable[[str, list[str]], None]) -> None:
        self._stream = stream
        self._on_lines = on_lines
        self._buffer = LineBuffer()
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)

    def open(self) -> None:
        """The process was started: close this process's copy of its end."""
        os.close(self.writer)
        self.writer = -1
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
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1
