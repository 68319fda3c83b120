"""The runs in a slot's process: which one goes on next, in the main thread. Owns the interleaving.

Each run has a greenlet. Where the engine waits for an event (mostly for the acknowledgement of a result), its
greenlet switches to this loop, and another run goes on: one whose event has arrived, or the next one that has
not begun. User code is never interrupted by another run: a task that the main thread executes returns before
the loop gets control. Only if no run can go on, the loop sends what the runs have reported, and reads the
link.

The worker may take runs back (`control_page.py`). The engine abandons them; none of their code is called.
"""

from __future__ import annotations

import contextvars
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from greenlet import getcurrent, greenlet

from pyoco_server.engine import Engine, Event
from pyoco_server.worker.code_clock import CodeClock
from pyoco_server.worker.recording.listener import Acknowledge, CommandListener
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.child_link import LinkReader, LinkWriter
from pyoco_server.worker.slots.control_page import ControlPage, LaneState
from pyoco_server.worker.slots.output import Output


class ChildRun:
    """A run that the worker has sent, from its arrival to its end."""

    def __init__(self, job: m.RunFlow) -> None:
        self.job = job
        self.number = job.number
        self.may_start_until = job.may_start_until
        self.engine: Engine
        self.listener: CommandListener
        self.unacknowledged: dict[int, Acknowledge] = {}
        self.reports = 0
        self.mailbox: Mailbox | None = None
        self.greenlet: Any = None
        self.is_waiting = False
        self.is_beside_others = False
        self.has_used_threads = False
        self.may_interleave = True
        # How long its code was called: in all, and the longest time without a wait.
        self.code_sec = 0.0
        self.longest_sec = 0.0


class Mailbox(SimpleQueue[Event]):
    """The events of one run. An event makes the run ready."""

    def __init__(self, run: ChildRun, ready: SimpleQueue[ChildRun | None]) -> None:
        self._run = run
        self._ready = ready

    def put(self, item: Event, block: bool = True, timeout: float | None = None) -> None:
        super().put(item)
        self._ready.put(self._run)


class RunLoop:
    def __init__(
        self,
        reader: LinkReader,
        writer: LinkWriter,
        output: Output,
        execute: Callable[[ChildRun], None],
    ) -> None:
        """`execute` executes a run from begin to end, in its greenlet."""
        self._reader = reader
        self._writer = writer
        self._output = output
        self._execute = execute
        self._page: ControlPage | None = None
        # Runs with an event; None: a run has arrived. Filled by any thread.
        self.ready: SimpleQueue[ChildRun | None] = SimpleQueue()
        self._runs: dict[int, ChildRun] = {}
        self._unbegun: deque[ChildRun] = deque()
        self._waiting_until: dict[ChildRun, float] = {}
        self._beside_others = 0
        self._revoked: set[int] = set()  # before they arrived
        self._current: ChildRun | None = None
        self._clock = CodeClock()
        self._loop_greenlet: Any = None
        self._idle: list[object] = []
        self._context = contextvars.copy_context()

    # From the thread that reads the link

    def use_page(self, page: ControlPage) -> None:
        """Once, before the first run arrives."""
        self._page = page

    def add(self, run: ChildRun) -> None:
        self._runs[run.number] = run
        self._unbegun.append(run)
        self.ready.put(None)

    def find(self, number: int) -> ChildRun | None:
        return self._runs.get(number)

    # In the main thread

    def run_forever(self) -> None:
        self._loop_greenlet = getcurrent()
        # Each run has a copy of the variables that were set while the resolver was loaded.
        self._context = contextvars.copy_context()
        while True:
            self._let_go_on(self._next())

    def receive(self, mailbox: SimpleQueue[Event], timeout_sec: float | None, beside_others: bool) -> Event:
        """The engine waits, in the greenlet of its run. Raises Empty after `timeout_sec`."""
        run = self._current
        assert run is not None
        run.has_used_threads = run.has_used_threads or beside_others
        if mailbox.empty():
            self._suspend(run, mailbox, timeout_sec, beside_others)
        return mailbox.get_nowait()

    def end(self, run: ChildRun) -> None:
        """In its greenlet, when it has ended."""
        del self._runs[run.number]
        self._note_time(run)

    def detach_page(self) -> None:
        """In a forked child: the page belongs to the parent process."""
        self._page = None

    def _suspend(
        self, run: ChildRun, mailbox: SimpleQueue[Event], timeout_sec: float | None, beside_others: bool
    ) -> None:
        assert isinstance(mailbox, Mailbox)
        run.mailbox = mailbox
        run.is_waiting = True
        if timeout_sec is not None:
            self._waiting_until[run] = time.monotonic() + timeout_sec
        if beside_others:
            self._note_threads(run, 1)
        self._loop_greenlet.switch()
        if beside_others:
            self._note_threads(run, -1)
        if timeout_sec is not None:
            del self._waiting_until[run]
        run.is_waiting = False

    def _note_threads(self, run: ChildRun, change: int) -> None:
        self._beside_others += change
        if self._page is not None:
            state = LaneState.IN_THREADS if change > 0 else LaneState.BEGUN
            self._page.set_state(run.job.lane, state)

    def _next(self) -> ChildRun:
        while True:
            page = self._page
            if page is None:
                run = self._choose()
            elif self._has_nothing_to_do(page):
                run = None  # none is let go on, so the lock is not needed
            else:
                page.lock()
                try:
                    self._abandon_revoked(page.take_revoked())
                    run = self._choose()
                    if run is not None:
                        page.enter(run.number)
                finally:
                    page.unlock()
            if run is not None:
                return run
            self._wait()

    def _has_nothing_to_do(self, page: ControlPage) -> bool:
        is_idle = self.ready.empty() and not self._unbegun and not self._waiting_until
        return is_idle and not page.has_revoked

    def _abandon_revoked(self, numbers: list[int]) -> None:
        for number in numbers:
            run = self._runs.get(number)
            if run is None:
                self._revoked.add(number)
            elif run.greenlet is None:
                self._refuse(run)
            else:
                run.engine.abandon(run.job.run_id)

    def _refuse(self, run: ChildRun) -> None:
        """It was taken back before it began."""
        self._revoked.discard(run.number)
        self._unbegun.remove(run)
        del self._runs[run.number]
        self._writer.send(m.EndedMessage(run=run.number, status="ABANDONED", reason=""))

    def _choose(self) -> ChildRun | None:
        """First a run that has begun: the fewer are in the middle, the sooner each ends."""
        with suppress(Empty):
            while True:
                run = self.ready.get_nowait()
                if run is not None and run.is_waiting and run.mailbox and not run.mailbox.empty():
                    return run
        if self._waiting_until:
            now = time.monotonic()
            for run, until in self._waiting_until.items():
                if until <= now:
                    return run
        while self._unbegun:
            run = self._unbegun[0]
            if run.number in self._revoked:
                self._refuse(run)
                continue
            self._unbegun.popleft()
            self._prepare(run)
            return run
        return None

    def _prepare(self, run: ChildRun) -> None:
        """Give it a greenlet. Making one costs as much as a quick task, so they are kept."""
        run.greenlet = self._idle.pop() if self._idle else greenlet(self._execute_runs)
        run.greenlet.gr_context = self._context.copy()
        if self._page is not None:
            self._page.set_state(run.job.lane, LaneState.BEGUN)

    def _let_go_on(self, run: ChildRun) -> None:
        self._current = run
        self._output.enter(run.job.run_id)
        self._reader.note_code(is_called=True)
        self._clock.start()
        if run.mailbox is None:
            run.greenlet.switch(run)
        else:
            run.greenlet.switch()
        self._note_time(run)
        self._reader.note_code(is_called=False)
        self._output.leave(run.job.run_id)
        self._current = None
        if self._page is not None:
            self._page.leave()
        if not self._runs:
            self._reader.note_idle()

    def _note_time(self, run: ChildRun) -> None:
        took_sec = self._clock.passed_sec()
        run.code_sec += took_sec
        run.longest_sec = max(run.longest_sec, took_sec)

    def _execute_runs(self, run: ChildRun) -> None:
        """The body of a greenlet: one run after the other."""
        while True:
            self._execute(run)
            self._idle.append(run.greenlet)
            run = self._loop_greenlet.switch()

    def _wait(self) -> None:
        self._writer.flush_awaited()
        timeout_sec = None
        if self._waiting_until:
            timeout_sec = max(0.0, min(self._waiting_until.values()) - time.monotonic())
        wait = self._reader.wait_beside_others if self._beside_others else self._reader.wait_for
        with suppress(Empty):
            self.ready.put(wait(self.ready, timeout_sec))
