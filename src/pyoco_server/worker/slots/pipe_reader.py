"""What comes out of a slot's own stdout and stderr: from below Python, or from processes it started.

The worker holds the reading ends, so that the last words of a process that was killed are not lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from pyoco_server.worker.slots.capture import LINE_CHARS_MAX, decoded_lines

READ_BYTES = 64 * 1024


class PipeReader:
    """One of the two streams."""

    def __init__(self, stream: str, heard: Callable[[str, list[str]], None]) -> None:
        self._stream = stream
        self._heard = heard
        self._begun = b""
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)

    def open(self) -> None:
        """The process has its end: from here on only it has."""
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
            *whole, rest = (self._begun + data).split(b"\n")
            self._begun = rest[: 4 * LINE_CHARS_MAX]
            if whole:
                self._heard(self._stream, decoded_lines(whole))

    def end_line(self) -> None:
        """The run has ended, and with it a line that it has not."""
        self.drain()
        if self._begun:
            self._heard(self._stream, decoded_lines([self._begun]))
            self._begun = b""

    def close(self) -> None:
        if self._reader >= 0:
            asyncio.get_running_loop().remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1
