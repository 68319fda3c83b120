"""Threads of tasks, and the passing of virtual time while the engine waits. Owns when time may jump.

Code takes real time and no virtual time. While code is executed, a timer (a timeout, a backoff) is due after
as much real time as it has virtual time left, as it would be on a worker. When no code is executed, or all of
it is in `VirtualTime.sleep`, time jumps to the next instant at which something is due.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue

from pyoco_server.engine import Event, Machine
from pyoco_server.engine.control import GroupEnded, Woken
from pyoco_server.engine.tasks.task_group import TaskGroup
from pyoco_server.testing.virtual_time import VirtualTime

# Tasks that ignore their timeout or a cancel get this long, in real seconds, to return after the end.
LEAVE_SEC = 1.0


class CodeTooSlow(Exception):
    """The code of a task did not return within the real seconds that `run_flow` gives it."""


class Outside:
    """What is due in virtual time besides the engine's timers: waits, answers, the grace of a cancel."""

    def next_at(self) -> float:
        return math.inf

    def handle_due(self) -> None:
        return


class Simulation:
    """`machine`, `receive` and `mailbox` are for the engine."""

    def __init__(self, virtual: VirtualTime, outside: Outside, code_sec_max: float) -> None:
        self._virtual = virtual
        self._outside = outside
        self._code_sec_max = code_sec_max
        self._lock = threading.Lock()  # of everything below, and of what is put into the mailbox
        self._in_code: dict[int, bool] = {}  # threads in the code of tasks; True: in VirtualTime.sleep
        self._sleepers: list[tuple[float, int, threading.Event]] = []
        self._threads: list[threading.Thread] = []
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._waited_sec = 0.0  # in real time, since virtual time has last moved
        self._is_over = False
        self.machine = Machine(stopwatch=virtual.now, chance=lambda: 1.0, submit=self._submit)
        virtual.attach(self._sleep_in_task)

    def mailbox(self) -> SimpleQueue[Event]:
        self._events = SimpleQueue()
        return self._events

    def receive(self, events: SimpleQueue[Event], wait_sec: float | None, beside_others: bool) -> Event:
        """The next event. Raises Empty when `wait_sec` of virtual time have passed."""
        until = math.inf if wait_sec is None else self._virtual.now() + wait_sec
        while True:
            with self._lock:
                if not events.empty():
                    return events.get_nowait()
                is_code_running = beside_others and not all(self._in_code.values())
                next_at = min(until, self._outside.next_at(), *(at for at, _, _ in self._sleepers))
            if is_code_running and (event := self._wait_for_code(events, next_at)) is not None:
                return event
            self.jump_to(next_at)
            if until <= self._virtual.now():
                raise Empty

    def jump_to(self, at: float) -> None:
        """Something is due at this instant: let it happen."""
        assert at < math.inf, "a run that waits for nothing does not end"
        self._virtual.advance(max(0.0, at - self._virtual.now()))
        self._waited_sec = 0.0
        with self._lock:
            self._wake_sleepers(self._virtual.now())
        if self._outside.next_at() <= self._virtual.now():
            self._outside.handle_due()

    def close(self) -> int:
        """Let sleeping code go on, and wait for the threads. Returns how many do not return."""
        with self._lock:
            self._is_over = True
            self._wake_sleepers(math.inf)
        self._virtual.attach(None)
        give_up_at = time.monotonic() + LEAVE_SEC
        for thread in self._threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def _wait_for_code(self, events: SimpleQueue[Event], next_at: float) -> Event | None:
        """None: as much real time has passed as there was virtual time until `next_at`."""
        left_sec = next_at - self._virtual.now() - self._waited_sec
        began_at = time.monotonic()
        try:
            return events.get(timeout=min(max(0.0, left_sec), self._code_sec_max))
        except Empty:
            if left_sec <= self._code_sec_max:
                return None
            limit = f"{self._code_sec_max:g} s of real time (code_sec_max)"
            raise CodeTooSlow(f"The code of a task did not return within {limit}") from None
        finally:
            self._waited_sec += time.monotonic() - began_at

    def _submit(self, group: TaskGroup, events: SimpleQueue[Event]) -> None:
        """A thread of its own for each task, with the context variables of the test."""
        perform = _in_context(lambda: self._perform(group, events))
        thread = threading.Thread(target=perform, name="pyoco-test-task", daemon=True)
        self._threads.append(thread)
        with self._lock:
            thread.start()
            assert thread.ident is not None
            self._in_code[thread.ident] = False

    def _perform(self, group: TaskGroup, events: SimpleQueue[Event]) -> None:
        with self._lock:
            pass  # until it is registered
        group.perform()
        with self._lock:  # in one step, so that time does not jump in between
            del self._in_code[threading.get_ident()]
            events.put(GroupEnded(group))

    def _sleep_in_task(self, seconds: float) -> bool:
        woken = threading.Event()
        with self._lock:
            ident = threading.get_ident()
            if ident not in self._in_code:
                return False
            if self._is_over:
                return True
            self._in_code[ident] = True
            self._sleepers.append((self._virtual.now() + seconds, ident, woken))
            self._events.put(Woken())  # the engine may wait for this code in real time
        woken.wait()
        return True

    def _wake_sleepers(self, until: float) -> None:
        due = [one for one in self._sleepers if one[0] <= until]
        self._sleepers = [one for one in self._sleepers if one[0] > until]
        for _, ident, woken in due:
            self._in_code[ident] = False
            woken.set()


def _in_context(act: Callable[[], None]) -> Callable[[], None]:
    context = copy_context()
    return lambda: context.run(act)
