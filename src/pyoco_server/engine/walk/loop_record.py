"""The aggregate record of a task in loops, beside those of its iterations. Owns when it is reported.

It starts when the outermost loop first reaches the task, and succeeds once, when that loop has ended: with
the output of the last iteration, which is also the task's entry in pyoco's `results`.
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
class Aggregate:
    """All iterations of a task at one position, until the outermost loop around it has ended."""

    attempt: TaskAttempt
    is_known: bool  # an earlier claim of the run has reported it
    is_started: bool = False
    last: str = ""  # the record name of the last iteration
    output: Any = None  # of the last iteration


class LoopedTasks:
    """The tasks of the current outermost loop, in the order in which they were reached."""

    def __init__(self, scheduler: Scheduler, reporter: Reporter, recorded: Mapping[str, Any]) -> None:
        self._scheduler = scheduler
        self._reporter = reporter
        self._recorded = recorded
        self._aggregates: dict[str, Aggregate] = {}

    def reach(self, spec: TaskSpec, label: str) -> Aggregate:
        aggregate = self._aggregates.get(label)
        if aggregate is None:
            attempt = TaskAttempt(spec, label, number=1, started_at=clock.now())
            aggregate = self._aggregates[label] = Aggregate(attempt, label in self._recorded)
            if aggregate.is_known:
                self._reporter.report_recorded(label, self._recorded[label])
        return aggregate

    def start(self, aggregate: Aggregate) -> None:
        """An iteration is about to be executed."""
        if not aggregate.is_started and not aggregate.is_known:
            aggregate.is_started = True
            self._reporter.report_started(aggregate.attempt, {})

    def fail(self, aggregate: Aggregate, failure: Failure) -> None:
        """An iteration has failed and is not retried."""
        if not aggregate.is_known:
            self._reporter.report_failed(aggregate.attempt, failure, clock.now())

    def end(self) -> int:
        """The outermost loop has ended. Returns how many successes will be acknowledged."""
        reported = [aggregate for aggregate in self._aggregates.values() if not aggregate.is_known]
        for aggregate in reported:
            self.start(aggregate)  # not started yet, if all iterations are from an earlier claim
            self._reporter.copy_inputs(aggregate.attempt.name, of=aggregate.last)
            self._scheduler.conclude(aggregate.attempt, aggregate.output)
        self._aggregates = {}
        return len(reported)
