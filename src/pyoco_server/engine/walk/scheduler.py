"""The scheduler of one run: fill free threads, wait for what happens, wind down. Owns the waiting.

Does not know the shape of the flow: a walk (`graph.py`, `program.py`) says what to start and hears what came
of it. All of it happens in the thread that called `Engine.run`; `_receive` is the one place where it waits.
"""

import math
import time
from collections import deque
from queue import Empty
from typing import Any, assert_never

from pyoco_server import clock
from pyoco_server.engine.control import Answered, Control, ResultAcknowledged, Woken
from pyoco_server.engine.limits import RunLimits
from pyoco_server.engine.outcome import Ending, Halt, OutcomeStatus
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import AttemptEnded, TaskAttempt
from pyoco_server.engine.tasks.context import EngineContext
from pyoco_server.engine.tasks.wiring import Wiring
from pyoco_server.engine.walk.in_flight import TasksInFlight
from pyoco_server.engine.walk.plan import TaskSpec
from pyoco_server.engine.walk.signals import News
from pyoco_server.engine.walk.timers import Expiry, RetryTimer
from pyoco_server.engine.walk.waits import Waits

# A run that may not start anything is woken when it may; should that be missed, it looks again so soon.
HELD_LOOK_SEC = 1.0
WAIT_MAX_SEC = 3600.0  # a lock refuses to wait for centuries; we look again after an hour


class Scheduler:
    """At most `parallelism` tasks run at a time; the others wait in the order in which they became ready."""

    def __init__(self, control: Control, ctx: EngineContext, reporter: Reporter, limits: RunLimits) -> None:
        self._control = control
        self._reporter = reporter
        self._limits = limits
        self._deadline = limits.deadline(time.monotonic())
        self._wiring = Wiring(ctx)
        self._under_way = TasksInFlight(control, ctx, self._wiring, reporter)
        self._waits = Waits(self._wiring, reporter, self._under_way.news)
        self._waiting: deque[TaskAttempt] = deque()

    def start(self, spec: TaskSpec, name: str) -> None:
        """Start it as soon as a thread is free; it is recorded and reported under this name."""
        if spec.wait is None:
            self._waiting.append(TaskAttempt(spec, name, spec.retries))
        else:
            self._waits.begin(spec, name)

    def take_recorded(self, spec: TaskSpec, name: str, output: Any) -> None:
        """Use the result from an earlier life of the run instead of executing the task."""
        self._wiring.save(spec, output)
        self._reporter.report_recorded(name, output)

    def conclude(self, whole: TaskAttempt, output: Any) -> None:
        """Report the success of a task whose iterations have all succeeded."""
        self._under_way.conclude(whole, output, clock.now())

    def next(self) -> News:
        """Wait until something became of a task.

        Raises `Halt` once the run is cancelled or out of time, or when nothing but waits is left.
        """
        while True:
            self.halt_if_due()
            if self._under_way.news:
                return self._under_way.news.popleft()
            if self._waiting and len(self._under_way.running) < self._limits.parallelism:
                if self._is_held():
                    self._pump(until=min(self._deadline, time.monotonic() + HELD_LOOK_SEC))
                    continue
                self._begin(self._waiting.popleft())
                # A quick task may be back already: its thread takes the next one, and none has to be hired.
                if self._control.events.empty():
                    continue
            if self._waits.open and self._is_idle() and self._control.events.empty():
                raise Halt(Ending(OutcomeStatus.PARKED))
            self._pump(until=self._deadline)

    def halt_if_due(self) -> None:
        if self._control.is_cancelling():
            raise Halt(Ending(OutcomeStatus.CANCELLED))
        if time.monotonic() >= self._deadline:
            text = f"The run exceeded its timeout of {self._limits.timeout_sec:.15g}s"
            raise Halt(Ending(OutcomeStatus.FAILED, text))

    @property
    def left_behind(self) -> int:
        return len(self._under_way.left_behind)

    @property
    def open_waits(self) -> tuple[str, ...]:
        return tuple(self._waits.open)

    def is_stuck(self) -> bool:
        """Nothing is in flight and no wait is open, so nothing more can happen."""
        return self._is_idle() and not self._waits.open

    def wind_down(self, patience_sec: float = math.inf) -> None:
        """Ask running tasks to return and wait for them: this long, or until the run is abandoned."""
        self._control.is_stopping = True
        running = self._under_way.running
        give_up_at = time.monotonic() + patience_sec
        for attempt in running:
            attempt.interrupt()
        self._reporter.cancel_all_but({attempt.name for attempt in running})
        while running and not self._control.is_abandoned and time.monotonic() < give_up_at:
            self._pump(give_up_at)
        while running:
            self._under_way.leave_behind(next(iter(running)))

    def _is_idle(self) -> bool:
        return not self._waiting and not self._under_way

    def _is_held(self) -> bool:
        """Set before it is asked again: a wake-up between the two is an event that waits for us."""
        may_start = self._limits.may_start
        if may_start is None or may_start():
            return False
        self._control.is_held = True
        self._control.is_held = not may_start()
        return self._control.is_held

    def _begin(self, attempt: TaskAttempt) -> None:
        if self._is_alone(attempt):
            self._under_way.perform(attempt)
        else:
            self._under_way.begin(attempt)

    def _is_alone(self, attempt: TaskAttempt) -> bool:
        """Nothing else runs, waits or is due before it has ended, and nothing has to interrupt it."""
        return (
            self._limits.lone_tasks_here
            and not self._waiting
            and not self._under_way.running
            and not self._under_way.retries_due
            and not self._waits.open
            and self._deadline == math.inf
            and attempt.spec.timeout_sec == math.inf
            and not attempt.spec.is_coroutine
        )

    def _pump(self, until: float) -> None:
        """Handle one thing: what is due, or else the next event."""
        timers = self._under_way.timers
        match timers.take_due():
            case Expiry(attempt):
                self._under_way.expire(attempt)
            case RetryTimer(attempt):
                self._under_way.retries_due -= 1
                self._waiting.append(attempt)
            case None:
                self._receive(min(timers.next_at(), until))

    def _receive(self, until: float) -> None:
        # Without a deadline no clock has to be read.
        wait_sec = None if until == math.inf else min(max(0.0, until - time.monotonic()), WAIT_MAX_SEC)
        try:
            event = self._limits.receive(self._control.events, wait_sec, bool(self._under_way.running))
        except Empty:
            return
        match event:
            case AttemptEnded():
                self._under_way.end(event)
            case ResultAcknowledged(attempt):
                self._under_way.release(attempt)
            case Answered(name, answer):
                self._waits.answer(name, answer)
            case Woken():
                pass  # the caller reads the flags
            case _:
                assert_never(event)
