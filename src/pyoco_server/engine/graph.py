"""Walk a flow without control flow: start what is ready, as wide as it can. Owns when such a run ends."""

from collections import deque
from collections.abc import Mapping
from typing import Any, assert_never

from pyoco_server.engine.news import Failed, Released, Succeeded
from pyoco_server.engine.outcome import Ending, Halt, Status
from pyoco_server.engine.plan import Plan
from pyoco_server.engine.ready import ReadySet
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.supervisor import Supervisor


class GraphWalk:
    """Ends when every task has succeeded or failed; raises `Halt` for any other ending."""

    def __init__(self, plan: Plan, supervisor: Supervisor, reporter: Reporter) -> None:
        self._plan = plan
        self._supervisor = supervisor
        self._reporter = reporter
        self._unsettled = set(plan.order)

    @property
    def names(self) -> tuple[str, ...]:
        return self._plan.order

    @property
    def last(self) -> tuple[str, ...]:
        return tuple(name for name in self._plan.order if not self._plan.needed_by[name])

    def run(self, recorded: Mapping[str, Any]) -> None:
        self._ready = ReadySet(self._plan, recorded)
        for name in self._plan.order:
            if name in recorded:
                self._supervisor.take_recorded(self._plan.specs[name], name, recorded[name])
                self._unsettled.discard(name)
        self._start(self._ready.first())
        while self._unsettled:
            self._step()

    def _step(self) -> None:
        if self._supervisor.is_idle():
            raise Halt(self._deadlock())
        match self._supervisor.next():
            case Succeeded(spec, _):
                self._unsettled.discard(spec.name)
            case Released(spec):
                self._start(self._ready.succeeded(spec.name))
            case Failed(spec, failure) if not spec.isolate:
                raise Halt(Ending(Status.FAILED, failure.error, spec.name, failure.traceback))
            case Failed(spec, _):
                self._unsettled.discard(spec.name)
                self._doom(spec.name)
            case other:
                assert_never(other)

    def _start(self, names: list[str]) -> None:
        for name in names:
            self._supervisor.start(self._plan.specs[name], name)

    def _doom(self, failed: str) -> None:
        """Fail everything that cannot start any more, near and far."""
        queue = deque([failed])
        while queue:
            cause = queue.popleft()
            for name in self._ready.failed(cause):
                self._unsettled.discard(name)
                self._reporter.doomed(name, because_of=cause)
                queue.append(name)

    def _deadlock(self) -> Ending:
        # Possible only in a circle through an ANY task, when what should have opened it failed in isolation.
        stuck = ", ".join(sorted(self._unsettled))
        return Ending(Status.FAILED, f"Deadlock or cycle detected in workflow: nothing can start {stuck}")
