"""The record that a task in loops has as a whole, beside those of its iterations. Owns when it is reported.

It starts when the outermost loop first gets to the task, and succeeds once, when that loop has ended: with
the output of the last iteration, which is what `results` holds in pyoco.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyoco_server import clock
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import TaskAttempt
from pyoco_server.engine.tasks.failure import Failure
from pyoco_server.engine.walk.plan import TaskSpec
from pyoco_server.engine.walk.scheduler import Scheduler


@dataclass(slots=True)
class Whole:
    """All iterations of a task at one place, until the outermost loop around it has ended."""

    attempt: TaskAttempt
    is_known: bool  # from an earlier claim of the run: reported then, and not again
    is_started: bool = False
    last: str = ""  # the record name of the last iteration
    output: Any = None  # of the last iteration


class LoopedTasks:
    """Those of the outermost loop that is being walked, in the order in which it got to them."""

    def __init__(self, scheduler: Scheduler, reporter: Reporter, recorded: Mapping[str, Any]) -> None:
        self._scheduler = scheduler
        self._reporter = reporter
        self._recorded = recorded
        self._wholes: dict[str, Whole] = {}

    def reach(self, spec: TaskSpec, label: str) -> Whole:
        whole = self._wholes.get(label)
        if whole is None:
            attempt = TaskAttempt(spec, label, number=1, started_at=clock.now())
            whole = self._wholes[label] = Whole(attempt, label in self._recorded)
            if whole.is_known:
                self._reporter.report_recorded(label, self._recorded[label])
        return whole

    def start(self, whole: Whole) -> None:
        """An iteration is about to be executed."""
        if not whole.is_started and not whole.is_known:
            whole.is_started = True
            self._reporter.report_started(whole.attempt, {})

    def fail(self, whole: Whole, failure: Failure) -> None:
        """An iteration has failed for good."""
        if not whole.is_known:
            self._reporter.report_failed(whole.attempt, failure, clock.now())

    def end(self) -> int:
        """The outermost loop has ended. Gives the number of successes that are to be acknowledged."""
        told = [whole for whole in self._wholes.values() if not whole.is_known]
        for whole in told:
            self.start(whole)  # not yet, if all iterations came from an earlier life
            self._reporter.take_inputs(whole.attempt.name, of=whole.last)
            self._scheduler.conclude(whole.attempt, whole.output)
        self._wholes = {}
        return len(told)
