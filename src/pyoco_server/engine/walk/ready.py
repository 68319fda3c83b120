"""Which tasks may start now, and which can never start. Owns the counting; starts nothing.

Each edge is visited once when its source settles, so a whole run costs O(tasks + edges).
"""

from collections.abc import Container, Iterable

from pyoco_server.engine.walk.plan import FlowPlan


class ReadySet:
    """Counts for each task the successes that it still needs, and the needed tasks that have not ended."""

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
