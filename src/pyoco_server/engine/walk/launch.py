"""Start one attempt: number it, wire its arguments, report it, hand it to a thread.

Owns the way to user code; what becomes of the attempt is the scheduler's.
"""

import math
import time

from pyoco.core.context import Context

from pyoco_server import clock
from pyoco_server.engine.control import Control
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import AttemptEnded, TaskAttempt
from pyoco_server.engine.tasks.context import EngineContext
from pyoco_server.engine.tasks.failure import Failure, describe
from pyoco_server.engine.tasks.thread_pool import hand
from pyoco_server.engine.tasks.wiring import Wiring


class Launcher:
    def __init__(self, control: Control, ctx: EngineContext, wiring: Wiring, reporter: Reporter) -> None:
        self._control = control
        self._ctx = ctx
        self._wiring = wiring
        self._reporter = reporter

    def launch(self, attempt: TaskAttempt) -> Failure | None:
        """None when the attempt is running; a failure when its arguments cannot be resolved."""
        failure = self._prepare(attempt)
        if failure is None:
            hand(attempt, self._control.events)
        return failure

    def perform(self, attempt: TaskAttempt) -> AttemptEnded:
        """Call the user's code in this thread, and come back when it does."""
        failure = self._prepare(attempt)
        return attempt.perform() if failure is None else AttemptEnded(attempt, clock.now(), None, failure)

    def _prepare(self, attempt: TaskAttempt) -> Failure | None:
        self._stamp(attempt)
        failure = self._wire(attempt)
        inputs = {name: value for name, value in attempt.arguments.items() if name != "ctx"}
        self._reporter.report_started(attempt, inputs)
        return failure

    def _stamp(self, attempt: TaskAttempt) -> None:
        attempt.number += 1
        attempt.run_id = self._control.run_context.run_id
        attempt.started_at = clock.now()
        if attempt.deadline == math.inf:
            attempt.deadline = time.monotonic() + attempt.spec.timeout_sec

    def _wire(self, attempt: TaskAttempt) -> Failure | None:
        try:
            attempt.arguments = self._wiring.arguments(attempt.spec, lambda: self._ctx_for(attempt))
        except Exception as exc:  # user code: a reference may lead to a property that raises
            return describe(exc)
        return None

    def _ctx_for(self, attempt: TaskAttempt) -> Context:
        if attempt.deadline == math.inf:
            return self._ctx
        return self._ctx.seen_until(lambda: self._control.is_stopping or attempt.is_abandoned)
