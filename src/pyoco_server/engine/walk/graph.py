"""Walk a flow without control flow: start every task that is ready. Owns when such a run ends."""

from collections import deque
from collections.abc import Container, Iterable
from typing import assert_never

from pyoco_server.engine.limits import Checkpoints
from pyoco_server.engine.outcome import Ending, Halt, OutcomeStatus
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.failure import Failure
from pyoco_server.engine.walk.in_flight import AttemptFailed, AttemptSucceeded, Released
from pyoco_server.engine.walk.plan import FlowPlan, TaskSpec
from pyoco_server.engine.walk.scheduler import Scheduler


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


class ReadySet:
    """Which tasks may start now, and which can never start.

    Counts for each task the successes that it still needs, and the needed tasks that have not ended. Each
    edge is visited once when its source settles, so a whole run costs O(tasks + edges).
    """

    def __init__(self, plan: FlowPlan, recorded: Container[str], failed: Iterable[str] = ()) -> None:
        self._plan = plan
        self._recorded = recorded
        self._undecided = {name: len(needs) for name, needs in plan.needs.items()}
        self._missing = {name: self._wanted(name) for name in plan.order}
        self._open = {name for name in plan.order if name not in recorded}
        self._open.difference_update(failed)

    def first(self) -> list[str]:
        """The tasks that can start at once. Call it once, first."""
        for name in self._plan.order:
            if name in self._recorded:
                self._decide(name, success=1)
        ready = [name for name in self._plan.order if name in self._open and self._missing[name] <= 0]
        self._open.difference_update(ready)
        return ready

    def note_success(self, name: str) -> list[str]:
        """The tasks that can start because this one succeeded."""
        touched = self._decide(name, success=1)
        return self._take(other for other in touched if self._missing[other] <= 0)

    def note_failure(self, name: str) -> list[str]:
        """The tasks that can never start because this one failed, without those that depend on them."""
        touched = self._decide(name, success=0)
        return self._take(other for other in touched if self._undecided[other] < self._missing[other])

    def _wanted(self, name: str) -> int:
        needs = len(self._plan.needs[name])
        return min(1, needs) if self._plan.specs[name].any_of else needs

    def _decide(self, name: str, success: int) -> list[str]:
        touched = self._plan.needed_by[name]
        for other in touched:
            self._undecided[other] -= 1
            self._missing[other] -= success
        return touched

    def _take(self, names: Iterable[str]) -> list[str]:
        taken = [name for name in names if name in self._open]
        self._open.difference_update(taken)
        return taken
