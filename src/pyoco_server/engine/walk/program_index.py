"""A private copy of a program for one run, and the names under which its tasks are written down.

A task may stand at several places, and a place in loops is passed many times: each execution has a name of
its own, which is the same whenever the run is walked again. `notify` is the first place that is reached,
`notify#2` the next one; `notify[3]` its fourth iteration, with an index for each loop, outermost first.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from pyoco.core.models import Flow, Task
from pyoco.dsl.nodes import DSLNode, ForEachNode, RepeatNode, SubFlowNode, SwitchNode, TaskNode, UntilNode

from pyoco_server.engine.walk.plan import PlanError, TaskSpec

_OF_AN_ITERATION = re.compile(r"(?:#\d+)?(?:\[\d+\])+$")


@dataclass(frozen=True, slots=True, eq=False)
class ProgramPosition(DSLNode):
    """Stands in the copy where a task stood in the program. Compared by identity."""

    spec: TaskSpec
    is_looped: bool


@dataclass(frozen=True, slots=True)
class Program:
    """What to walk, and the plain names of all tasks: in program order, those outside of it last."""

    body: SubFlowNode
    names: tuple[str, ...]


class Labels:
    """What a place is called, decided when the walk first gets to it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._taken = set(names)
        self._places: dict[str, int] = {}  # how many of them each task has so far
        self._labels: dict[ProgramPosition, str] = {}

    def of(self, place: ProgramPosition) -> str:
        label = self._labels.get(place)
        if label is None:
            label = self._labels[place] = self._next(place.spec.name)
        return label

    def _next(self, name: str) -> str:
        number = self._places[name] = self._places.get(name, 0) + 1
        if number == 1:
            return name
        label = f"{name}#{number}"
        return self._next(name) if label in self._taken else label


def program_of(flow: Flow) -> Program:
    """Raises `PlanError` when the flow cannot be executed as it is defined."""
    source = cast(Any, flow).build_program()  # pyoco does not annotate it
    copying = _Copying()
    body = copying.body(source, is_looped=False)
    names = dict.fromkeys([*copying.names, *sorted(task.name for task in flow.tasks)])
    _refuse_ambiguous(names, copying.looped)
    return Program(body, tuple(names))


class _Copying:
    """pyoco uses one node wherever a task stands, and settings may be changed while we run."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.looped: set[str] = set()

    def body(self, source: SubFlowNode, is_looped: bool) -> SubFlowNode:
        return SubFlowNode([self._node(step, is_looped) for step in source.steps])

    def _node(self, node: DSLNode, is_looped: bool) -> DSLNode:
        match node:
            case TaskNode():
                return self._place(node.task, is_looped)
            case RepeatNode() | ForEachNode() | UntilNode():
                return replace(node, body=self.body(node.body, is_looped=True))
            case SwitchNode():
                cases = [replace(case, target=self.body(case.target, is_looped)) for case in node.cases]
                return replace(node, cases=cases)
            case _:
                return node  # the walk says that it does not know it, should it get there

    def _place(self, task: Task, is_looped: bool) -> ProgramPosition:
        self.names.append(task.name)
        if is_looped:
            self.looped.add(task.name)
        return ProgramPosition(TaskSpec.of(task), is_looped)


def _refuse_ambiguous(names: Iterable[str], looped: set[str]) -> None:
    for name in names:
        looks_like = _OF_AN_ITERATION.sub("", name)
        if looks_like != name and looks_like in looped:
            raise PlanError(
                f"Task '{name}' is called like an iteration of task '{looks_like}', "
                "which stands in a loop; give it another name"
            )
