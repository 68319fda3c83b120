"""Which tasks a program contains, and how often each may be executed. Reads; executes nothing."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from pyoco.core.models import Flow
from pyoco.dsl.nodes import DSLNode, ForEachNode, RepeatNode, SubFlowNode, SwitchNode, TaskNode, UntilNode


def program_of(flow: Flow) -> SubFlowNode:
    program = cast(Any, flow).build_program()  # pyoco does not annotate it
    assert isinstance(program, SubFlowNode)
    return program


def task_names(flow: Flow) -> list[str]:
    """In the order in which they stand in the program, each once; tasks outside of it come last."""
    in_program = [name for name, _ in _occurrences(program_of(flow), in_loop=False)]
    return list(dict.fromkeys([*in_program, *sorted(task.name for task in flow.tasks)]))


def executed_at_most_once(program: SubFlowNode) -> frozenset[str]:
    """Only for these does a recorded result say which execution it belongs to."""
    occurrences = list(_occurrences(program, in_loop=False))
    counts = Counter(name for name, _ in occurrences)
    looped = {name for name, in_loop in occurrences if in_loop}
    return frozenset(name for name, count in counts.items() if count == 1 and name not in looped)


def _occurrences(node: DSLNode, in_loop: bool) -> Iterator[tuple[str, bool]]:
    match node:
        case TaskNode():
            yield node.task.name, in_loop
        case SubFlowNode():
            for step in node.steps:
                yield from _occurrences(step, in_loop)
        case RepeatNode() | ForEachNode() | UntilNode():
            yield from _occurrences(node.body, in_loop=True)
        case SwitchNode():
            for case in node.cases:
                yield from _occurrences(case.target, in_loop)
