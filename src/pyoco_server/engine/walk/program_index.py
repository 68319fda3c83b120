"""A private copy of a program for one run, and the record names of its tasks.

A task may have several positions, and a position in loops is reached many times. Each execution has a record
name, which is the same in every claim of the run. `notify` is the first position that is reached, `notify#2`
the next one; `notify[3]` is its fourth iteration, with an index for each loop, outermost first.
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
    """A task's position in the copy of the program. Compared by identity."""

    spec: TaskSpec
    is_looped: bool


@dataclass(frozen=True, slots=True)
class Program:
    """The steps, and the plain names of all tasks: in program order, then those outside of the program."""

    body: SubFlowNode
    names: tuple[str, ...]


class Labels:
    """The record name of each position, fixed when the walk first reaches it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._taken = set(names)
        self._reached: dict[str, int] = {}  # how many positions of each task were reached
        self._labels: dict[ProgramPosition, str] = {}

    def of(self, position: ProgramPosition) -> str:
        label = self._labels.get(position)
        if label is None:
            label = self._labels[position] = self._next(position.spec.name)
        return label

    def _next(self, name: str) -> str:
        number = self._reached[name] = self._reached.get(name, 0) + 1
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
    """pyoco uses one node for all positions of a task, and settings may change during the run."""

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
                return node  # the walk fails with an unknown node type if it reaches it

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
