"""A private copy of a flow's graph for one run. Owns order and edges; immutable.

Task objects are shared between flows and may be rewired during a run, so settings and edges are copied once.
Only edges between tasks of this flow count.
"""

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Self, cast

from pyoco.core.models import Flow, Task
from pyoco.dsl.nodes import TaskNode

from pyoco_server.flows.waits import WaitTask

NAMES_SHOWN_MAX = 10


class PlanError(Exception):
    """The flow cannot be executed as it is defined; the message says what to change."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskSpec:
    """The settings of a task."""

    name: str
    func: Callable[..., object]
    inputs: Mapping[str, object]
    outputs: tuple[str, ...]
    retries: int
    timeout_sec: float  # infinite when the task has no limit
    isolate: bool  # its failure does not fail the run
    any_of: bool  # one of the tasks it needs is enough
    is_coroutine: bool  # another thread can interrupt it
    wait: WaitTask | None  # it has no code: its result is an answer

    @classmethod
    def of(cls, task: Task) -> Self:
        wait = task.func if type(task.func) is WaitTask else None
        return cls(
            name=task.name,
            func=task.func,
            inputs={**(wait.prompt if wait else {}), **(task.inputs or {})},
            outputs=tuple(task.outputs or ()),
            retries=max(0, int(_number(task, "retries", 0))),
            timeout_sec=_number(task, "timeout_sec", math.inf),
            isolate=task.fail_policy == "isolate",
            any_of=task.trigger_policy == "ANY",
            is_coroutine=_is_coroutine(task.func),
            wait=wait,
        )


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """Tasks in a stable topological order, and their edges."""

    specs: Mapping[str, TaskSpec]
    needs: Mapping[str, tuple[str, ...]]
    needed_by: Mapping[str, list[str]]
    order: tuple[str, ...]


def plan_of(flow: Flow) -> FlowPlan:
    """O(tasks + edges), apart from sorting names. Raises `PlanError` when some tasks could never start."""
    tasks = sorted(flow.tasks, key=lambda task: task.name)
    specs = {task.name: TaskSpec.of(task) for task in tasks}
    if len(specs) != len(tasks):
        raise PlanError("Two tasks of the flow have the same name; give each its own")
    if any(spec.wait for spec in specs.values()):
        _refuse_duplicates(flow)
    needs = {task.name: _inside(task, specs) for task in tasks}
    needed_by: dict[str, list[str]] = {name: [] for name in specs}
    for name, wanted in needs.items():
        for other in wanted:
            needed_by[other].append(name)
    order = tuple(_Ordering(specs, needs, needed_by).names())
    return FlowPlan(specs, needs, needed_by, order)


def _refuse_duplicates(flow: Flow) -> None:
    """pyoco treats two tasks with one name as one: of two sleeps in a row the second would be missing.

    Edges do not show it: a task that several flows share has the edges of earlier flows too.
    """
    own = {task.name: task for task in flow.tasks}
    for step in cast(Any, flow).build_program().steps:  # pyoco does not annotate it
        if not isinstance(step, TaskNode) or own[step.task.name] is step.task:
            continue
        if WaitTask in (type(step.task.func), type(own[step.task.name].func)):
            raise PlanError(f"Two tasks of the flow are called '{step.task.name}'; give each its own name")


def _inside(task: Task, specs: Mapping[str, TaskSpec]) -> tuple[str, ...]:
    return tuple(sorted({other.name for other in task.dependencies if other.name in specs}))


def _is_coroutine(func: Callable[..., object]) -> bool:
    if type(func) is FunctionType and not func.__dict__:  # the result of `inspect`, in less time
        return bool(func.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(func)


def _number(task: Task, field: str, otherwise: float) -> float:
    value = getattr(task, field) or otherwise
    if isinstance(value, int | float) and not math.isnan(value):
        return value
    raise PlanError(f"Task '{task.name}': {field} must be a number, not {value!r}")


class _Ordering:
    """Kahn's algorithm. A cycle is opened at an ANY task of which one need is already placed."""

    def __init__(
        self,
        specs: Mapping[str, TaskSpec],
        needs: Mapping[str, tuple[str, ...]],
        needed_by: Mapping[str, list[str]],
    ) -> None:
        self._specs = specs
        self._needed_by = needed_by
        self._missing = {name: len(wanted) for name, wanted in needs.items()}
        self._placed: dict[str, None] = {}
        self._openers: deque[str] = deque()  # ANY tasks of which at least one need is placed

    def names(self) -> Iterable[str]:
        self._place(name for name, missing in self._missing.items() if not missing)
        while self._openers:
            name = self._openers.popleft()
            if name not in self._placed:
                self._place([name])
        if len(self._placed) < len(self._specs):
            raise PlanError(self._stuck())
        return self._placed

    def _place(self, names: Iterable[str]) -> None:
        queue = deque(names)
        while queue:
            name = queue.popleft()
            self._placed[name] = None
            queue.extend(other for other in self._needed_by[name] if self._relieve(other))

    def _relieve(self, name: str) -> bool:
        self._missing[name] -= 1
        if self._specs[name].any_of:
            self._openers.append(name)
        return not self._missing[name] and name not in self._placed

    def _stuck(self) -> str:
        stuck = [name for name in self._specs if name not in self._placed]
        shown = ", ".join(stuck[:NAMES_SHOWN_MAX]) + (", …" if len(stuck) > NAMES_SHOWN_MAX else "")
        return f"Deadlock or cycle detected in workflow: these tasks wait for each other: {shown}"
