"""Walk a flow without control flow: start every task that is ready. Owns when such a run ends."""

from collections import deque
from typing import assert_never

from pyoco_server.engine.limits import Checkpoints
from pyoco_server.engine.outcome import Ending, Halt, OutcomeStatus
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.failure import Failure
from pyoco_server.engine.walk.plan import FlowPlan, TaskSpec
from pyoco_server.engine.walk.ready import ReadySet
from pyoco_server.engine.walk.scheduler import Scheduler
from pyoco_server.engine.walk.signals import AttemptFailed, AttemptSucceeded, Released


class GraphWalk:
    """Ends when every task has succeeded or failed; raises `Halt` for any other ending."""

    def __init__(self, plan: FlowPlan, scheduler: Scheduler, reporter: Reporter) -> None:
        self._plan = plan
        self._scheduler = scheduler
        self._reporter = reporter
        self._unsettled = set(plan.order)

    @property
    def names(self) -> tuple[str, ...]:
        return self._plan.order

    @property
    def last(self) -> tuple[str, ...]:
        return tuple(name for name in self._plan.order if not self._plan.needed_by[name])

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        return {name: needs for name, needs in self._plan.needs.items() if needs}

    @property
    def any_of(self) -> tuple[str, ...]:
        return tuple(name for name, spec in self._plan.specs.items() if spec.any_of)

    def run(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        failed = [name for name in checkpoints.failures if self._is_final(name)]
        self._ready = ReadySet(self._plan, checkpoints.results, failed)
        for name in self._plan.order:
            if name in checkpoints.results:
                self._scheduler.take_recorded(self._plan.specs[name], name, checkpoints.results[name])
                self._unsettled.discard(name)
        first = self._ready.first()
        for name in failed:
            self._restore_failure(name)
        self._start(first)
        while self._unsettled:
            self._step()

    def _is_final(self, name: str) -> bool:
        spec = self._plan.specs.get(name)
        return (
            spec is not None
            and name not in self._checkpoints.results
            and (spec.isolate or spec.wait is not None)
        )

    def _restore_failure(self, name: str) -> None:
        failure = Failure(self._checkpoints.failures[name])
        self._reporter.report_recorded_failure(name, failure)
        self._fail(self._plan.specs[name], failure)

    def _step(self) -> None:
        if self._scheduler.is_stuck():
            raise Halt(self._deadlock())
        match self._scheduler.next():
            case AttemptSucceeded(spec, _):
                self._unsettled.discard(spec.name)
            case Released(spec):
                self._start(self._ready.note_success(spec.name))
            case AttemptFailed(spec, failure):
                self._fail(spec, failure)
            case other:
                assert_never(other)

    def _start(self, names: list[str]) -> None:
        for name in names:
            self._scheduler.start(self._plan.specs[name], name)

    def _fail(self, spec: TaskSpec, failure: Failure) -> None:
        if not spec.isolate:
            raise Halt(Ending(OutcomeStatus.FAILED, failure.error, spec.name, failure.traceback, failure))
        self._unsettled.discard(spec.name)
        self._fail_unreachable(spec.name)

    def _fail_unreachable(self, failed: str) -> None:
        """Fail every task that can no longer start, directly or through other tasks."""
        queue = deque([failed])
        while queue:
            cause = queue.popleft()
            for name in self._ready.note_failure(cause):
                self._unsettled.discard(name)
                self._reporter.report_not_run(
                    name, because_of=cause, is_known=name in self._checkpoints.failures
                )
                queue.append(name)

    def _deadlock(self) -> Ending:
        # Possible only in a cycle through an ANY task, if the task that opens the cycle failed alone.
        stuck = ", ".join(sorted(self._unsettled))
        return Ending(
            OutcomeStatus.FAILED, f"Deadlock or cycle detected in workflow: nothing can start {stuck}"
        )
