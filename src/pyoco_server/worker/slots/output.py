"""Everything that is printed in a slot's process. Owns where each line is sent.

During a run, lines are sent to the worker as messages. Outside of runs (a resolver may print while it is
loaded) they go to stderr, which the worker writes to its own stderr.

Processes that a task starts get pipes, which a thread reads: with `subprocess` instead of inheriting stdout
and stderr, after a fork (`multiprocessing`, `os.fork`) instead of keeping them. Other processes, started by a
shell or in a thread without a task, write to the slot's own descriptors, which the worker reads. If they
outlive the run, their lines would be in the log of the next run: this is checked after a run that has started
a process, on Linux only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

from pyoco_server import clock
from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt, install_thread_inheritance
from pyoco_server.worker.recording.listener import Numbering
from pyoco_server.worker.slots.capture import LineBuffer, OnLines, capture_output, restore_streams
from pyoco_server.worker.slots.child_link import LinkWriter

DESCRIPTORS = (1, 2)
READ_BYTES = 64 * 1024
STREAMS = ("stdout", "stderr")

_popen_init = subprocess.Popen.__init__
_STARTS = frozenset({"os.system", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen"})
_PROCESSES = Path("/proc")


class _PrintingRun(NamedTuple):
    number: int
    numbering: Numbering


class Output:
    def __init__(self, writer: LinkWriter) -> None:
        self._writer = writer
        self._runs: dict[str, _PrintingRun] = {}
        self._printed: set[str] = set()  # the runs that have printed something
        self._current: str | None = None  # the run whose code the main thread is in
        # sys.stdout and sys.stderr, as a run has set them
        self._replaced: dict[str, tuple[TextIO, TextIO]] = {}
        self._streams = capture_output(self._on_lines)
        self._pipes = _TaskPipes(self._on_lines)
        self._pipes.install(self._on_fork)
        # A task may close descriptors 1 and 2, or point them elsewhere.
        self._kept = [(os.dup(descriptor), os.fstat(descriptor)) for descriptor in DESCRIPTORS]
        self._left = _LeftProcesses(tuple(kept for kept, _ in self._kept), lambda: self._current)
        install_thread_inheritance()

    def begin(self, run_id: str, number: int, numbering: Numbering) -> None:
        self._runs[run_id] = _PrintingRun(number, numbering)

    def enter(self, run_id: str) -> None:
        """The main thread is going to be in the code of this run."""
        self._current = run_id
        if self._replaced and run_id in self._replaced:
            sys.stdout, sys.stderr = self._replaced.pop(run_id)

    def leave(self, run_id: str) -> None:
        """Other runs may go on now: they print to our streams, and not into a line of this run."""
        for stream in self._streams:
            stream.end_line_outside_tasks()
        self._current = None
        if run_id in self._runs and (
            sys.stdout is not self._streams[0] or sys.stderr is not self._streams[1]
        ):
            self._replaced[run_id] = (sys.stdout, sys.stderr)
        restore_streams(self._streams)

    def end_of(self, run_id: str, task: str) -> None:
        """The task has ended: its output is sent before its end is reported."""
        for stream in self._streams:
            stream.end_lines_of(run_id, task)
        self._pipes.drain(run_id, task)

    def has_printed(self, run_id: str) -> bool:
        return run_id in self._printed

    def has_started_process(self, run_id: str) -> bool:
        return self._left.has_started(run_id)

    def end(self, run_id: str) -> bool:
        """True: processes of the run may still print here, so no other run may be executed here."""
        self._pipes.forget(run_id)
        for stream in self._streams:
            stream.end_lines_of(run_id)
            stream.end_line_outside_tasks()
        del self._runs[run_id]
        self._printed.discard(run_id)
        restore_streams(self._streams)
        for descriptor, (kept, known) in zip(DESCRIPTORS, self._kept, strict=True):
            if not _is_same(descriptor, known):
                os.dup2(kept, descriptor)
        return self._left.are_there(run_id)

    def _on_lines(
        self, at: float, stream: str, attempt: CurrentAttempt | None, lines: list[str], level: str | None
    ) -> None:
        run = self._runs.get(attempt.run_id) if attempt is not None else self._run_outside_tasks()
        if run is None:
            # Printed between runs, or by a thread that an earlier run has left: it belongs to no run's log.
            os.write(DESCRIPTORS[1], ("\n".join(lines) + "\n").encode())
            return
        task, number = None, None
        if attempt is not None:
            self._printed.add(attempt.run_id)
            task, number = attempt.task, run.numbering.attempt_no(attempt.task, attempt.attempt)
        self._writer.print(at, (run.number, stream, task, number, level), lines)

    def _run_outside_tasks(self) -> _PrintingRun | None:
        """What is printed outside of tasks belongs to the run whose code executes, or to the only one."""
        if self._current is not None:
            return self._runs.get(self._current)
        return next(iter(self._runs.values())) if len(self._runs) == 1 else None

    def _on_fork(self) -> None:
        self._writer.close_after_fork()
        logging.getLogger().handlers = [logging.StreamHandler()]
        self._runs = {}


def _is_same(descriptor: int, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), known)
    except OSError:
        return False


class _Pipe:
    def __init__(self, attempt: CurrentAttempt, stream: str) -> None:
        self.attempt = attempt
        self.stream = stream
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.buffer = LineBuffer()
        self.is_over = False  # its run has ended: it is read so that writers do not block, and dropped


class _TaskPipes:
    """The pipes of each task that has started a process."""

    def __init__(self, on_lines: OnLines) -> None:
        self._on_lines = on_lines
        self._lock = threading.Lock()
        self._pipes: dict[CurrentAttempt, tuple[_Pipe, _Pipe]] = {}
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
            attempt = CURRENT.get()
            pair = None if attempt is None else self._pipes.get(attempt)
            if pair is not None:
                for pipe, descriptor in zip(pair, DESCRIPTORS, strict=True):
                    os.dup2(pipe.writer, descriptor)
            sys.stdout, sys.stderr = (_plain(descriptor) for descriptor in DESCRIPTORS)

        cast(Any, subprocess.Popen).__init__ = init
        os.register_at_fork(before=self._before_fork, after_in_child=after_fork)

    def drain(self, run_id: str, task: str | None = None) -> None:
        """Pass on what the processes of this task (None: of all tasks of the run) have printed so far."""
        if not self._pipes:
            return
        with self._lock:
            for attempt, pair in self._pipes.items():
                if attempt.run_id == run_id and task in (None, attempt.task):
                    for pipe in pair:
                        self._read(pipe, to_the_end=True)
                        self._pass_on(pipe, pipe.buffer.take_rest())

    def forget(self, run_id: str) -> None:
        """The run is over. Its pipes end with the last process that uses them."""
        if not self._pipes:
            return
        self.drain(run_id)
        with self._lock:
            for attempt in [attempt for attempt in self._pipes if attempt.run_id == run_id]:
                for pipe in self._pipes.pop(attempt):
                    pipe.is_over = True
                    os.close(pipe.writer)

    def _before_fork(self) -> None:
        # `subprocess` does not call this: its pipes are set by `init`.
        attempt = CURRENT.get()
        if attempt is not None and not self._is_forked:
            self._of(attempt)

    def _of(self, attempt: CurrentAttempt) -> tuple[_Pipe, _Pipe]:
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


def _plain(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


class _LeftProcesses:
    """Whether a run has left processes that write to the slot's stdout or stderr.

    `descriptors`: copies of the slot's stdout and stderr; user code may have changed 1 and 2.
    """

    def __init__(self, descriptors: tuple[int, ...], current_run: Callable[[], str | None]) -> None:
        self._ours = {_name(f"/proc/self/fd/{one}") for one in descriptors} - {None}
        self._current_run = current_run
        self._started: set[str | None] = set()  # the runs that have started a process
        sys.addaudithook(self._on_event)

    def has_started(self, run_id: str) -> bool:
        return bool(self._started) and (run_id in self._started or None in self._started)

    def are_there(self, run_id: str) -> bool:
        """Call it once after each run."""
        has_started = self.has_started(run_id)
        self._started -= {run_id, None}
        return has_started and any(self._prints_here(pid) for pid in _others())

    def _on_event(self, event: str, _: tuple[object, ...]) -> None:
        if event in _STARTS:
            attempt = CURRENT.get()
            self._started.add(attempt.run_id if attempt is not None else self._current_run())

    def _prints_here(self, pid: str) -> bool:
        return any(_name(f"{_PROCESSES}/{pid}/fd/{stream}") in self._ours for stream in DESCRIPTORS)


def _others() -> Iterator[str]:
    if not _PROCESSES.is_dir():
        return
    known = {str(os.getpid()), _resource_tracker()}
    yield from (one.name for one in _PROCESSES.iterdir() if one.name.isdigit() and one.name not in known)


def _resource_tracker() -> str:
    """A helper process of `multiprocessing` that stays, and prints nothing."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    return str(getattr(getattr(module, "_resource_tracker", None), "_pid", None))


def _name(link: str) -> str | None:
    """None if the process has ended, or belongs to another user."""
    try:
        return str(Path(link).readlink())
    except OSError:
        return None
