"""The scheduler of one run: fill free threads, wait for events, wind down. Owns the waiting.

Ready tasks are given to one thread as a group (`grouping.py`). If a group takes long, tasks that have not
begun are taken back and get threads of their own.

It does not use the shape of the flow: a walk (`graph.py`, `program.py`) chooses what to start and gets the
signals. Everything happens in the thread that called `Engine.run`; it waits only in `_receive`.
"""

import math
from collections import deque
from queue import Empty
from typing import assert_never

from pyoco_server import clock
from pyoco_server.engine.control import Answered, Control, GroupEnded, ResultAcknowledged, Woken
from pyoco_server.engine.limits import RunLimits
from pyoco_server.engine.listener import WaitAnswer, WaitPrompt
from pyoco_server.engine.outcome import Ending, Halt, OutcomeStatus
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import TaskAttempt
from pyoco_server.engine.tasks.context import EngineContext
from pyoco_server.engine.tasks.failure import Failure, describe, try_call
from pyoco_server.engine.tasks.wiring import Wiring, has_references
from pyoco_server.engine.walk.grouping import Grouping, function_key
from pyoco_server.engine.walk.in_flight import (
    AttemptFailed,
    AttemptSucceeded,
    Expiry,
    Released,
    RetryTimer,
    Signal,
    TasksInFlight,
)
from pyoco_server.engine.walk.plan import TaskSpec

# A run that may not start anything is woken when it may. If that is missed, it checks again after this long.
HELD_CHECK_SEC = 1.0
# So many further tasks are given to the thread of a group at most.
FURTHER_MAX = 120
WAIT_MAX_SEC = 3600.0  # locks accept no timeout of centuries


class Scheduler:
    """At most `parallelism` tasks run at a time; the others wait in the order in which they became ready."""

    def __init__(self, control: Control, ctx: EngineContext, reporter: Reporter, limits: RunLimits) -> None:
        self._control = control
        self._reporter = reporter
        self._limits = limits
        self._stopwatch = limits.machine.stopwatch
        self._deadline = limits.deadline(self._stopwatch())
        self._wiring = Wiring(ctx)
        self._waiting: deque[TaskAttempt] = deque()
        self._in_flight = TasksInFlight(control, ctx, self._wiring, reporter, limits, self._waiting)
        self._grouping = Grouping(limits.parallelism, is_off=limits.recruit_after_sec <= 0)
        self._waits = _Waits(self._wiring, reporter, self._in_flight.signals)

    def start(self, spec: TaskSpec, name: str) -> None:
        """Start it as soon as a thread is free; it is recorded and reported under this name."""
        if spec.wait is None:
            self._waiting.append(TaskAttempt(spec, name, spec.retries))
        else:
            self._waits.begin(spec, name)

    def take_recorded(self, spec: TaskSpec, name: str, output: object) -> None:
        """Use the result of an earlier claim of the run instead of executing the task."""
        self._wiring.save(spec, output)
        self._reporter.report_recorded(name, output)

    def conclude(self, aggregate: TaskAttempt, output: object) -> None:
        """Report the success of a task whose iterations have all succeeded."""
        self._in_flight.conclude(aggregate, output, clock.now())

    def next(self) -> Signal:
        """Wait for the next signal about a task.

        Raises `Halt` when the run is cancelled or out of time, or when only waits are left.
        """
        while True:
            self.halt_if_due()
            if self._in_flight.signals:
                return self._in_flight.signals.popleft()
            if self._in_flight.returned or self._room():
                if self._is_held():
                    self._pump(until=min(self._deadline, self._stopwatch() + HELD_CHECK_SEC))
                    continue
                self._begin()
                # A quick task may have returned already: then its thread takes the next one.
                if self._control.events.empty():
                    continue
            if self._waits.open and self._is_idle() and self._control.events.empty():
                raise Halt(Ending(OutcomeStatus.PARKED))
            self._pump(until=self._deadline)

    def halt_if_due(self) -> None:
        if self._control.is_cancelling():
            raise Halt(Ending(OutcomeStatus.CANCELLED))
        if self._deadline < math.inf and self._stopwatch() >= self._deadline:
            text = f"The run exceeded its timeout of {self._limits.timeout_sec:.15g}s"
            raise Halt(Ending(OutcomeStatus.FAILED, text))

    @property
    def left_behind(self) -> int:
        return len(self._in_flight.left_behind)

    @property
    def open_waits(self) -> tuple[str, ...]:
        return tuple(self._waits.open)

    def is_stuck(self) -> bool:
        """Nothing is in flight and no wait is open, so no further signal can come."""
        return self._is_idle() and not self._waits.open

    def wind_down(self, patience_sec: float = math.inf) -> None:
        """Ask running tasks to return and wait for them: this long, or until the run is abandoned."""
        self._control.is_stopping = True
        self._in_flight.drop_unbegun()
        running = self._in_flight.running
        give_up_at = self._stopwatch() + patience_sec
        for attempt in running:
            attempt.interrupt()
        self._reporter.cancel_all_but({attempt.name for attempt in running})
        while running and not self._control.is_abandoned and self._stopwatch() < give_up_at:
            self._pump(give_up_at)
            self._in_flight.drop_unbegun()
        while running:
            self._in_flight.leave_behind(next(iter(running)))

    def _is_idle(self) -> bool:
        return not self._waiting and not self._in_flight

    def _is_held(self) -> bool:
        """The flag is set before `may_start` is called again: a wake-up in between is then an event."""
        if self._may_start():
            return False
        self._control.is_held = True
        self._control.is_held = not self._may_start()
        return self._control.is_held

    def _may_start(self) -> bool:
        return self._limits.may_start is None or self._limits.may_start()

    def _room(self) -> int:
        """How many of the waiting tasks may start now."""
        return min(len(self._waiting), self._limits.parallelism - len(self._in_flight.running))

    def _begin(self) -> None:
        """Give ready tasks to a thread. Those that were taken back from one come first."""
        returned = self._in_flight.returned
        if returned:
            self._in_flight.submit(_take(returned, self._grouping.size(len(returned))))
        elif self._is_alone(self._waiting[0]):
            self._in_flight.perform(self._waiting.popleft())
        else:
            room = self._room()
            taken = self._take_ready(self._grouping.size(room))
            is_full = 1 < len(taken) == room  # otherwise each has a thread of its own, or none is left
            has_time = all(attempt.spec.timeout_sec == math.inf for attempt in taken)
            self._in_flight.begin(taken, self._take_further(taken) if is_full and has_time else [])

    def _take_ready(self, count: int) -> list[TaskAttempt]:
        """`may_start` was called for the first of them."""
        taken = [self._waiting.popleft()]
        while len(taken) < count and self._may_start():
            taken.append(self._waiting.popleft())
        return taken

    def _take_further(self, taken: list[TaskAttempt]) -> list[TaskAttempt]:
        """Those that the same thread begins when one of `taken` has ended: more calls of the same functions.

        Not one that must be interrupted after a time, which begins with its report.
        """
        functions = {function_key(attempt.spec.func) for attempt in taken}
        further: list[TaskAttempt] = []
        while self._waiting and len(further) < FURTHER_MAX:
            spec = self._waiting[0].spec
            is_alike = function_key(spec.func) in functions and spec.timeout_sec == math.inf
            if not is_alike or spec.is_coroutine or has_references(spec):
                break
            further.append(self._waiting.popleft())
        return further

    def _is_alone(self, attempt: TaskAttempt) -> bool:
        """No other task runs, waits or is due before it has ended, and nothing has to interrupt it."""
        return (
            self._limits.lone_tasks_here
            and len(self._waiting) == 1
            and not self._in_flight.running
            and not self._in_flight.retries_due
            and not self._waits.open
            and self._deadline == math.inf
            and attempt.spec.timeout_sec == math.inf
            and not attempt.spec.is_coroutine
        )

    def _pump(self, until: float) -> None:
        """Handle a timer that is due, or else the next event."""
        timers = self._in_flight.timers
        match timers.take_due():
            case Expiry(attempt):
                self._in_flight.expire(attempt)
            case RetryTimer(attempt):
                self._in_flight.retries_due -= 1
                self._waiting.append(attempt)
            case None:
                overdue_at = self._in_flight.overdue_at()
                if overdue_at < math.inf and self._stopwatch() >= overdue_at:
                    self._recruit()
                else:
                    self._receive(min(timers.next_at(), overdue_at, until))

    def _recruit(self) -> None:
        """A group takes long. Its tasks that have not begun will begin in threads of their own."""
        if not self._in_flight.wait_for_begin() and self._in_flight.recall():
            self._grouping.note_overdue()

    def _receive(self, until: float) -> None:
        # Without a deadline the clock is not read.
        wait_sec = None if until == math.inf else min(max(0.0, until - self._stopwatch()), WAIT_MAX_SEC)
        try:
            event = self._limits.receive(self._control.events, wait_sec, bool(self._in_flight.running))
        except Empty:
            return
        match event:
            case GroupEnded(group):
                self._in_flight.end_group(group)
            case ResultAcknowledged(attempt):
                self._in_flight.release(attempt)
            case Answered(name, answer):
                self._waits.answer(name, answer)
            case Woken():
                pass  # the caller reads the flags
            case _:
                assert_never(event)


def _take(attempts: deque[TaskAttempt], count: int) -> list[TaskAttempt]:
    return [attempts.popleft() for _ in range(count)]


class _Waits:
    """The open waits of the run, and how an answer ends one.

    An answer is already in the log when it arrives here, so it is recorded and not reported. An answer that
    arrives before the walk has reached its task is kept.
    """

    def __init__(self, wiring: Wiring, reporter: Reporter, signals: deque[Signal]) -> None:
        self._wiring = wiring
        self._reporter = reporter
        self._signals = signals
        self._early: dict[str, WaitAnswer] = {}
        self.open: dict[str, TaskSpec] = {}  # in the order in which they were reached

    def begin(self, spec: TaskSpec, name: str) -> None:
        answer = self._early.pop(name, None)
        if answer is not None:
            self._settle(spec, name, answer)
            return
        attempt = TaskAttempt(spec, name, number=1, started_at=clock.now())
        prompt = try_call(self._prompt, spec, name, on_error=describe)
        if isinstance(prompt, Failure):
            self._reporter.report_failed(attempt, prompt, clock.now())
            self._signals.append(AttemptFailed(spec, prompt))
            return
        self.open[name] = spec
        self._reporter.report_waiting(attempt, prompt)

    def answer(self, name: str, answer: WaitAnswer) -> None:
        spec = self.open.pop(name, None)
        if spec is None:
            self._early[name] = answer
        else:
            self._settle(spec, name, answer)

    def _prompt(self, spec: TaskSpec, name: str) -> WaitPrompt:
        assert spec.wait is not None
        prompt = self._wiring.prompt(spec)
        return WaitPrompt(spec.wait.key or name, prompt, spec.wait.timeout_sec, spec.wait.on_timeout)

    def _settle(self, spec: TaskSpec, name: str, answer: WaitAnswer) -> None:
        if answer.error is not None:
            failure = Failure(answer.error)
            self._reporter.report_recorded_failure(name, failure)
            self._signals.append(AttemptFailed(spec, failure))
            return
        self._wiring.save(spec, answer.output)
        self._reporter.report_recorded(name, answer.output)
        self._signals.append(AttemptSucceeded(spec, answer.output))
        self._signals.append(Released(spec))  # needs no acknowledgement: the answer came from the log
