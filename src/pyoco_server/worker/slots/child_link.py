"""The slot's end of the link: which thread reads it, and when messages are written.

The thread that runs flows reads the link when no run can go on. Every switch between threads costs as much as
a quick task, so a second thread only checks every few milliseconds whether the code of one run takes longer
than that. Then it sends what was reported before, and reads the link until the main thread waits for a
message again. Where tasks run in other threads, it starts to read at once. It is also the clock for buffered
messages. It sleeps if there was no run for a while.

Messages are written in order and in as few writes as possible. Messages that are waited for are sent when no
run can go on, or after a millisecond. Others go with the next such message, or at the next tick of the clock.
The start of a task and the success that follows it are one message.
Printed lines are sent at once, so that they are not lost with a process that dies; only when there are very
many, the last ones are buffered.
"""

from __future__ import annotations

import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from pyoco_server.lifecycle.commands import StartTask, SucceedTask
from pyoco_server.worker.recording.listener import TaskCommand
from pyoco_server.worker.slots import messages as m

TICK_SEC = 0.02
# If the code of a run takes longer than this, the second thread reads. It finds the same code in two checks.
LISTEN_AFTER_SEC = 0.002
# While it finds the main thread outside of code, it checks less and less often, down to this: a check costs
# as much as a quick task, and the main thread reads for itself then. So in the first 10 ms of code a cancel
# may be delayed by both times together.
REST_SEC_MAX = 0.008
# So often it finds no run before it sleeps until the next one: to wake it costs more than a few checks.
CHECKS_BEFORE_SLEEP = 4
# A message that is waited for is buffered no longer than this, while other runs go on.
AWAITED_SEC = 0.001
# Below the size that malloc would map and unmap for every message.
RECEIVE_BYTES = 64 * 1024
# Up to this many lines are sent one by one between two ticks.
LINES_AT_ONCE = 100
BUFFERED_BYTES_MAX = 16 * 1024

T = TypeVar("T")
# run, stream, task, attempt, level
Origin = tuple[int, str, str | None, int | None, str | None]


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
        self._mailbox: SimpleQueue[Any] = SimpleQueue()
        self._checks_without_run = 0
        self._reading = threading.Lock()  # its holder reads the link
        self._wakeup = threading.Event()
        self._is_asleep = False
        self._is_listening = False
        self._is_running = False  # a run is here
        self._code_calls = 0  # odd while the main thread is in the code of a run
        # What the main thread waits for while the second one reads.
        self._awaits_message = False
        self._awaits_others = False

    def open(self) -> None:
        threading.Thread(target=self._read_for_main_thread, name="pyoco-slot-listener", daemon=True).start()

    def note_code(self, *, is_called: bool) -> None:
        """In the main thread: the code of a run is called now, or has returned."""
        self._code_calls += 1
        assert self._code_calls % 2 == is_called

    def note_idle(self) -> None:
        """In the main thread: there is no run."""
        self._is_running = False

    def wait_for(self, mailbox: SimpleQueue[T], timeout_sec: float | None = None) -> T:
        """In the main thread: the next item of the mailbox, which only messages of the link can fill."""
        if not self._reading.acquire(blocking=False):
            return self._wait_for_listener(mailbox, timeout_sec)
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
        self._awaits_others = True
        if not self._is_listening:
            self._wakeup.set()
        try:
            return mailbox.get(timeout=timeout_sec)
        finally:
            self._awaits_others = False

    def _wait_for_listener(self, mailbox: SimpleQueue[T], timeout_sec: float | None) -> T:
        self._mailbox = mailbox
        self._awaits_message = True
        try:
            return mailbox.get(timeout=timeout_sec)
        finally:
            self._awaits_message = False

    def _read(self) -> None:
        data = self._link.recv(RECEIVE_BYTES)
        if not data:
            os._exit(0)  # the worker is gone
        for message in self._reader.read(data):
            if isinstance(message, m.RunFlow):
                self._is_running = True
                if self._is_asleep:
                    self._wakeup.set()
            self._on_message(message)

    def _read_for_main_thread(self) -> None:
        """The body of the second thread; it never returns."""
        ticked_at, calls, rest_sec = 0.0, 0, LISTEN_AFTER_SEC
        while True:
            self._rest(rest_sec)
            before, calls = calls, self._code_calls
            is_stuck = calls == before and calls % 2 == 1
            rest_sec = next_rest_sec(rest_sec, calls)
            if is_stuck or time.monotonic() - ticked_at >= TICK_SEC:
                self._on_tick()
                ticked_at = time.monotonic()
            if (is_stuck or self._awaits_others) and self._reading.acquire(blocking=False):
                self._listen()

    def _rest(self, rest_sec: float) -> None:
        """Wait for a moment, unless reading is wanted now; without runs until one arrives."""
        self._checks_without_run = 0 if self._is_running else self._checks_without_run + 1
        if self._checks_without_run > CHECKS_BEFORE_SLEEP:
            self._is_asleep = True
            if not self._is_running:
                self._wakeup.wait()
            self._is_asleep = False
            self._wakeup.clear()
            self._checks_without_run, rest_sec = 0, LISTEN_AFTER_SEC
        if not self._awaits_others:
            self._wakeup.wait(rest_sec)
        self._wakeup.clear()

    def _listen(self) -> None:
        """Read until a message wakes the main thread, which then reads for itself again."""
        self._is_listening = True
        try:
            while not (self._awaits_message and not self._mailbox.empty()):
                if self._readable.poll(TICK_SEC * 1e3 if self._is_running else None):
                    self._read()
                else:
                    self._on_tick()
        finally:
            self._is_listening = False
            self._reading.release()


def next_rest_sec(rest_sec: float, calls: int) -> float:
    """How long the second thread rests. `calls`: what it has found; odd: code is being executed."""
    return LISTEN_AFTER_SEC if calls % 2 else min(2 * rest_sec, REST_SEC_MAX)


class LinkWriter:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._unsent: list[bytes] = []
        # The start of a task, after what is unsent. Of most tasks the success follows, in the same message.
        self._started: tuple[int, StartTask, bytes | None] | None = None
        self._size = 0
        self._lines = 0
        self._sent_at = 0.0
        self._awaited_at: float | None = None  # since when a message that is waited for is buffered
        # Consecutive lines of one origin are one message.
        self._origin: Origin | None = None
        self._printed_at = 0.0
        self._printed: list[str] = []

    def send(self, message: m.FromSlot) -> None:
        """At once."""
        with self._lock:
            self._keep(message)
            self._send()

    def send_awaited(self, message: m.FromSlot) -> None:
        """In the main thread: at its next `flush_awaited`, or sooner."""
        with self._lock:
            self._keep(message)
            self._note_awaited()

    def report(
        self,
        run: int,
        command: TaskCommand,
        values: bytes | None,
        number: int = m.NOT_AWAITED,
        *,
        patience_sec: float = math.inf,
    ) -> None:
        """Like `send_awaited` if it has a number. Otherwise at once, unless something was sent less than
        `patience_sec` ago: then with what is sent next."""
        with self._lock:
            self._end_lines()
            started = self._started
            if started is not None and started[0] == run and type(command) is SucceedTask:
                self._started = None
                both = m.Executed(
                    run=run,
                    started=started[1],
                    inputs=started[2],
                    succeeded=command,
                    output=values,
                    number=number,
                )
                self._frame(both)
            else:
                self._frame_started()
                if type(command) is StartTask:
                    self._started = run, command, values
                else:
                    self._frame(m.Reported(run=run, command=command, values=values, number=number))
            if number != m.NOT_AWAITED:
                self._note_awaited()
            elif patience_sec != math.inf and time.monotonic() - self._sent_at >= patience_sec:
                self._send()

    def flush_awaited(self) -> None:
        """The main thread is going to wait."""
        if self._awaited_at is not None:
            with self._lock:
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
        if self._unsent or self._started or self._lines:
            with self._lock:
                self._lines = 0
                self._send()

    def close_after_fork(self) -> None:
        """In a forked child: the link belongs to the parent process."""
        os.close(self._link.detach())

    def _end_lines(self) -> None:
        if self._origin is not None:
            run, stream, task, attempt, level = self._origin
            printed = m.Printed(
                run=run,
                at=self._printed_at,
                stream=stream,
                task=task,
                attempt=attempt,
                lines=self._printed,
                level=level,
            )
            self._origin, self._printed = None, []
            self._frame_started()
            self._frame(printed)

    def _note_awaited(self) -> None:
        now = time.monotonic()
        if self._awaited_at is None:
            self._awaited_at = now
        elif now - self._awaited_at >= AWAITED_SEC:
            self._send()

    def _keep(self, message: m.FromSlot) -> None:
        self._end_lines()
        self._frame_started()
        self._frame(message)

    def _frame_started(self) -> None:
        if self._started is not None:
            run, command, values = self._started
            self._started = None
            self._frame(m.Reported(run=run, command=command, values=values))

    def _frame(self, message: m.FromSlot) -> None:
        data = m.frame(message)
        self._unsent.append(data)
        self._size += len(data)

    def _send(self) -> None:
        self._end_lines()
        self._frame_started()
        if self._unsent:
            data = b"".join(self._unsent)
            self._unsent.clear()
            self._size = 0
            self._awaited_at = None
            self._sent_at = time.monotonic()
            self._link.sendall(data)
