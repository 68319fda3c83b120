"""What the processes of a task print: each task that starts one gets pipes, which a thread reads.

A process started with `subprocess` gets them instead of inheriting stdout and stderr. A forked process
(`multiprocessing`, `os.fork`) gets them after the fork. All other processes write to the slot's own
descriptors, which the worker reads.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

from pyoco_server import clock
from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt
from pyoco_server.worker.slots.capture import LineBuffer, OnLines

READ_BYTES = 64 * 1024
STREAMS = ("stdout", "stderr")

_popen_init = subprocess.Popen.__init__


class _Pipe:
    def __init__(self, attempt: CurrentAttempt | None, stream: str) -> None:
        self.attempt = attempt
        self.stream = stream
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.buffer = LineBuffer()
        self.is_over = False  # its run has ended: it is read so that writers do not block, and dropped


class TaskPipes:
    def __init__(self, on_lines: OnLines) -> None:
        self._on_lines = on_lines
        self._lock = threading.Lock()
        self._pipes: dict[CurrentAttempt | None, tuple[_Pipe, _Pipe]] = {}
        self._selector = selectors.DefaultSelector()
        self._reader: threading.Thread | None = None
        self._is_forked = False

    def install(self, on_fork: Callable[[], None]) -> None:
        """`on_fork` is called in a forked child, which must not use the resources of its parent."""

        def init(popen: Any, *args: Any, **kwargs: Any) -> None:
            attempt = CURRENT.get()
            # Six positions: args, bufsize, executable, stdin, stdout, stderr.
            if attempt is not None and len(args) < 5 and not self._is_forked:
                out, err = self._of(attempt)
                if kwargs.get("stdout") is None:
                    kwargs["stdout"] = out.writer
                if kwargs.get("stderr") is None:
                    kwargs["stderr"] = err.writer
            _popen_init(popen, *args, **kwargs)

        def after_fork() -> None:
            self._is_forked = True  # its own processes inherit the descriptors that are set here
            on_fork()
            pair = self._pipes.get(CURRENT.get())
            if pair is not None:
                for pipe, descriptor in zip(pair, (1, 2), strict=True):
                    os.dup2(pipe.writer, descriptor)
            sys.stdout, sys.stderr = (_plain(descriptor) for descriptor in (1, 2))

        cast(Any, subprocess.Popen).__init__ = init
        os.register_at_fork(before=self._before_fork, after_in_child=after_fork)

    def drain(self, task: str | None = None) -> None:
        """Pass on what the processes of this task (None: of all tasks) have printed so far."""
        with self._lock:
            for attempt, pair in self._pipes.items():
                if task is None or (attempt and attempt.task == task):
                    for pipe in pair:
                        self._read(pipe, to_the_end=True)
                        self._pass_on(pipe, pipe.buffer.take_rest())

    def forget(self) -> None:
        """The run is over. Its pipes end with the last process that uses them."""
        self.drain()
        with self._lock:
            for pair in self._pipes.values():
                for pipe in pair:
                    pipe.is_over = True
                    os.close(pipe.writer)
            self._pipes.clear()

    def _before_fork(self) -> None:
        # `subprocess` does not call this: its pipes are set by `init`.
        attempt = CURRENT.get()
        if attempt is not None and not self._is_forked:
            self._of(attempt)

    def _of(self, attempt: CurrentAttempt | None) -> tuple[_Pipe, _Pipe]:
        with self._lock:
            if attempt not in self._pipes:
                pair = _Pipe(attempt, STREAMS[0]), _Pipe(attempt, STREAMS[1])
                self._pipes[attempt] = pair
                for pipe in pair:
                    self._selector.register(pipe.reader, selectors.EVENT_READ, pipe)
                self._start_reading()
            return self._pipes[attempt]

    def _start_reading(self) -> None:
        if self._reader is None:
            self._reader = threading.Thread(target=self._read_all, name="pyoco-slot-pipes", daemon=True)
            self._reader.start()

    def _read_all(self) -> None:
        CURRENT.set(None)  # started by a task, but belongs to none
        while True:
            for key, _ in self._selector.select(timeout=1.0):
                with self._lock:
                    self._read(key.data)

    def _read(self, pipe: _Pipe, *, to_the_end: bool = False) -> None:
        while pipe.reader >= 0:
            try:
                data = os.read(pipe.reader, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._end(pipe)
                return
            self._pass_on(pipe, pipe.buffer.add(data))
            if not to_the_end:
                return

    def _end(self, pipe: _Pipe) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(pipe.reader)
        os.close(pipe.reader)
        pipe.reader = -1
        self._pass_on(pipe, pipe.buffer.take_rest())

    def _pass_on(self, pipe: _Pipe, lines: list[str]) -> None:
        if lines and not pipe.is_over:
            self._on_lines(clock.now(), pipe.stream, pipe.attempt, lines, None)


def _plain(descriptor: int) -> Any:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
