"""The slot's end of the link: which thread reads it, and when messages are written.

The thread that runs flows reads the link while it is idle, otherwise a second one does. Every switch
between threads costs as much as a quick task. So between runs, and while only an acknowledgement is awaited,
the main thread reads for itself. The second thread checks every few milliseconds whether the link is being
read. If user code takes longer than that, the second thread reads until the next run begins. Where tasks run
in other threads, it starts to read at once. It is also the clock for buffered messages.

Messages are written in order and in as few writes as possible. A message that is waited for is sent at once,
together with all buffered ones. Other messages go with the next such message, or at the next tick of the
clock. Printed lines are sent at once too, so that they are not lost with a process that dies; only when there
are very many, the last ones are buffered.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from pyoco_server.worker.slots import messages as m

TICK_SEC = 0.02
# While user code keeps the main thread busy for longer than this, the second thread reads. This is also the
# longest delay of a cancel.
LISTEN_AFTER_SEC = 0.003
# Below the size that malloc would map and unmap for every message.
RECEIVE_BYTES = 64 * 1024
# Up to this many lines are sent one by one between two ticks.
LINES_AT_ONCE = 100
BUFFERED_BYTES_MAX = 16 * 1024

T = TypeVar("T")
# stream, task, attempt, level
Origin = tuple[str, str | None, int | None, str | None]


class LinkReader:
    def __init__(
        self, link: socket.socket, on_message: Callable[[m.ToSlot], None], on_tick: Callable[[], None]
    ) -> None:
        self._link = link
        self._on_message = on_message
        self._on_tick = on_tick
        self._reader = m.slot_reader()
        self._readable = select.poll()
        self._readable.register(link, select.POLLIN)
        self._reading = threading.Lock()  # its holder reads the link
        self._wakeup = threading.Event()
        self._is_asleep = False
        self._is_running = False
        self._is_wanted = False  # to listen now, and not only from the next tick on

    def open(self) -> None:
        threading.Thread(target=self._read_for_main_thread, name="pyoco-slot-listener", daemon=True).start()

    def note_run_end(self) -> None:
        self._is_running = False

    def wait_for(self, mailbox: SimpleQueue[T], timeout_sec: float | None = None) -> T:
        """In the main thread: the next item of the mailbox, which only messages of the link can fill."""
        if not self._reading.acquire(blocking=False):
            return mailbox.get(timeout=timeout_sec)
        try:
            until = None if timeout_sec is None else time.monotonic() + timeout_sec
            while mailbox.empty():
                if not self._readable.poll(
                    None if until is None else max(0.0, until - time.monotonic()) * 1e3
                ):
                    raise Empty
                self._read()
        finally:
            self._reading.release()
        return mailbox.get()

    def wait_beside_others(self, mailbox: SimpleQueue[T], timeout_sec: float | None = None) -> T:
        """The same if other threads fill it too: the second thread reads the link meanwhile."""
        if not self._is_wanted:
            self._is_wanted = True
            self._wakeup.set()
        return mailbox.get(timeout=timeout_sec)

    def _read(self) -> bool:
        """True: a run is to begin."""
        data = self._link.recv(RECEIVE_BYTES)
        if not data:
            os._exit(0)  # the worker is gone
        begins = False
        for message in self._reader.read(data):
            if isinstance(message, m.RunFlow):
                begins = self._is_running = True
                if self._is_asleep:
                    self._wakeup.set()
            self._on_message(message)
        return begins

    def _read_for_main_thread(self) -> None:
        """The body of the second thread; it never returns."""
        ticked_at = 0.0
        while True:
            self._rest()
            if time.monotonic() - ticked_at >= TICK_SEC:
                self._on_tick()
                ticked_at = time.monotonic()
            if self._reading.acquire(blocking=False):
                self._listen()
            self._is_wanted = False

    def _rest(self) -> None:
        """Wait for a moment of a run, unless reading is wanted now; between runs until one begins."""
        self._is_asleep = True
        if not self._is_running:
            self._wakeup.wait()
        self._is_asleep = False
        self._wakeup.clear()
        if not self._is_wanted:
            self._wakeup.wait(LISTEN_AFTER_SEC)

    def _listen(self) -> None:
        """Read until the main thread gets its next run: then it reads for itself again at first."""
        try:
            while True:
                if not self._readable.poll(TICK_SEC * 1e3 if self._is_running else None):
                    self._on_tick()
                elif self._read():
                    break
        finally:
            self._reading.release()


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
