"""The plan of a run as commands: its tasks in portions, its last tasks, and its edges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pyoco_server.lifecycle.commands import PlanTasks

# The plan of a large flow is too long for one message.
PLAN_NAMES_MAX = 1_000
LAST_NAMES_MAX = 1_000
# Edges are drawn, and needed when a run is executed again from a task on. A flow with more than this is not
# drawn, and the order of the log is used instead (`lifecycle.task_order`).
DRAWN_CHARS_MAX = 100_000


class Edges(NamedTuple):
    """`any_of`: the tasks for which one of those they need is enough."""

    needs: Mapping[str, Sequence[str]] = {}
    any_of: Collection[str] = ()

    def among(self, tasks: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
        needs = {name: list(self.needs[name]) for name in tasks if name in self.needs}
        return needs, [name for name in tasks if name in self.any_of]


def plan(
    fence: int, names: Sequence[str], last: Sequence[str], edges: Edges, at: float
) -> Iterator[PlanTasks]:
    if _chars(edges.needs) > DRAWN_CHARS_MAX:
        edges = Edges()
    # A single last task is known without this; very many last tasks make no useful result.
    told = list(last) if 1 < len(last) <= LAST_NAMES_MAX else None
    for start in range(0, max(len(names), 1), PLAN_NAMES_MAX):
        tasks = list(names[start : start + PLAN_NAMES_MAX])
        needs, any_of = edges.among(tasks)
        yield PlanTasks(
            fence=fence,
            tasks=tasks,
            last=told,
            needs=needs or None,
            any_of=any_of or None,
            planned_at=at,
        )
        told = None


def _chars(needs: Mapping[str, Sequence[str]]) -> int:
    return sum(len(name) for wanted in needs.values() for name in wanted)
