"""The scheduler of one run: fill free threads, wait for what happens, wind down. Owns the waiting.

Does not know the shape of the flow: a walk (`graph.py`, `program.py`) says what to start and hears what came
of it. All of it happens in the thread that called `Engine.run`; `_receive` is the one place where it waits.
"""

import math
import time
from collections import deque
from queue import Empty
from typing import Any, assert_never

from pyoco_server.engine.attempt import Attempt, Ended
from pyoco_server.engine.context import EngineContext
from pyoco_server.engine.control import Acknowledged, Control, Woken
from pyoco_server.engine.news import News
from pyoco_server.engine.outcome import Ending, Halt, Status
from pyoco_server.engine.plan import TaskSpec
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.timers import Expiry, Retry
from pyoco_server.engine.under_way import UnderWay
from pyoco_server.engine.wiring import Wiring

WAIT_MAX_SEC = 3600.0  # a lock refuses to wait for centuries; we look again after an hour


class Supervisor:
    """At most `parallelism` tasks run at a time; the others wait in the order in which they became ready."""

    def __init__(self, control: Control, ctx: EngineContext, reporter: Reporter, parallelism: int) -> None:
        self._control = control
        self._ctx = ctx
        self._reporter = reporter
        self._parallelism = parallelism
        self._wiring = Wiring(ctx)
        self._under_way = UnderWay(control, ctx, self._wiring, reporter)
        self._waiting: deque[Attempt] = deque()

    def start(self, spec: TaskSpec) -> None:
        """Start it as soon as a thread is free."""
        self._waiting.append(Attempt(spec, spec.retries))

    def take_recorded(self, spec: TaskSpec, output: Any) -> None:
        """Use the result from an earlier life of the run instead of executing the task."""
        self._wiring.save(spec, output)
        self._reporter.recorded(spec.name, output)

    def next(self) -> News:
        """Wait until something became of a task. Raises `Halt` once the run is cancelled."""
        while True:
            self.halt_if_cancelled()
            if self._under_way.news:
                return self._under_way.news.popleft()
            if self._waiting and len(self._under_way.running) < self._parallelism:
                self._under_way.begin(self._waiting.popleft())
                # A quick task may be back already: its thread takes the next one, and none has to be hired.
                self._pump(until=-math.inf)
            else:
                self._pump()

    def halt_if_cancelled(self) -> None:
        if self._ctx.is_cancelled:
            raise Halt(Ending(Status.CANCELLED))

    def is_idle(self) -> bool:
        """Nothing is under way, so nothing will happen by itself."""
        return not self._waiting and not self._under_way

    def wind_down(self, patience_sec: float = math.inf) -> None:
        """Ask running tasks to return and wait for them: so long, or until somebody abandons the run."""
        self._control.is_stopping = True
        running = self._under_way.running
        give_up_at = time.monotonic() + patience_sec
        for attempt in running:
            attempt.interrupt()
        self._reporter.cancel_all_but({attempt.spec.name for attempt in running})
        while running and not self._control.is_abandoned and time.monotonic() < give_up_at:
            self._pump(give_up_at)
        while running:
            self._under_way.leave_behind(next(iter(running)))

    def _pump(self, until: float = math.inf) -> None:
        """Handle one thing: what is due, or else the next event."""
        now = time.monotonic()
        timers = self._under_way.timers
        match timers.take_due(now):
            case Expiry(attempt):
                self._under_way.expire(attempt)
            case Retry(attempt):
                self._under_way.retries_due -= 1
                self._waiting.append(attempt)
            case None:
                self._receive(min(timers.next_at() - now, until - now, WAIT_MAX_SEC))

    def _receive(self, wait_sec: float) -> None:
        try:
            event = self._control.events.get(timeout=max(0.0, wait_sec))
        except Empty:
            return
        match event:
            case Ended():
                self._under_way.end(event)
            case Acknowledged(attempt):
                self._under_way.release(attempt)
            case Woken():
                pass  # whoever pumps looks at the flags
            case _:
                assert_never(event)
