"""The slot's sending end of the link: messages in order, in as few writes as possible.

A message that is waited for is sent at once, together with all buffered ones. Other messages go with the next
such message, or at the next tick of the clock (`link_reader.py`). Printed lines are sent at once too, so that
they are not lost with a process that dies; only when there are very many, the last ones are buffered.
"""

from __future__ import annotations

import os
import socket
import threading
import time

from pyoco_server.worker.slots import messages as m

# Up to this many lines are sent one by one between two ticks.
LINES_AT_ONCE = 100
BUFFERED_BYTES_MAX = 16 * 1024

# stream, task, attempt, level
Origin = tuple[str, str | None, int | None, str | None]


class LinkWriter:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._unsent: list[bytes] = []
        self._size = 0
        self._lines = 0
        self._sent_at = 0.0
        # Consecutive lines of one origin are one message.
        self._origin: Origin | None = None
        self._printed_at = 0.0
        self._printed: list[str] = []

    def send(self, message: m.FromSlot, *, patience_sec: float = 0.0) -> None:
        """At once, unless something was sent less than `patience_sec` ago: then with what is sent next."""
        data = m.frame(message)
        with self._lock:
            self._end_lines()
            self._keep(data)
            if not patience_sec or time.monotonic() - self._sent_at >= patience_sec:
                self._send()

    def print(self, at: float, origin: Origin, lines: list[str]) -> None:
        with self._lock:
            if origin != self._origin:
                self._end_lines()
                self._origin, self._printed_at = origin, at
            self._printed += lines
            self._lines += len(lines)
            self._size += sum(map(len, lines))
            if self._lines <= LINES_AT_ONCE or self._size >= BUFFERED_BYTES_MAX:
                self._send()

    def tick(self) -> None:
        if self._unsent or self._lines:
            with self._lock:
                self._lines = 0
                self._send()

    def close_after_fork(self) -> None:
        """In a forked child: the link belongs to the parent process."""
        os.close(self._link.detach())

    def _end_lines(self) -> None:
        if self._origin is not None:
            stream, task, attempt, level = self._origin
            printed = m.Printed(
                at=self._printed_at,
                stream=stream,
                task=task,
                attempt=attempt,
                lines=self._printed,
                level=level,
            )
            self._origin, self._printed = None, []
            self._keep(m.frame(printed))

    def _keep(self, data: bytes) -> None:
        self._unsent.append(data)
        self._size += len(data)

    def _send(self) -> None:
        self._end_lines()
        if self._unsent:
            data = b"".join(self._unsent)
            self._unsent.clear()
            self._size = 0
            self._sent_at = time.monotonic()
            self._link.sendall(data)
