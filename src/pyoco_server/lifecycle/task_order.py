"""The order of a run's tasks by its log: which tasks a task needs, or which succeeded before it.

A flow with loops and choices is walked one task after the other and has no edges to record, and the edges of
a very large graph are left out of the plan. The order of the log is right for all of them: a task starts
when the successes that it needs are in the log.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import Graph

# A task has started with the first of these.
_BEGINNINGS = (e.TaskStarted, e.TaskWaiting, e.TaskSucceeded, e.TaskFailed)


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True):
    """`planned`: the tasks in order. `needs`: by task, the tasks that it needs; None: the plan has no edges.

    `any_of`: the tasks that need only one of these. `began`, `done`: by task, the position in the log of its
    first event and of its success.
    """

    planned: tuple[str, ...]
    needs: dict[str, list[str]] | None
    any_of: frozenset[str]
    began: dict[str, int]
    done: dict[str, int]


def task_order_of(events: Iterable[e.Event], graph: Graph | None = None) -> TaskOrder:
    """`graph`: of a client-driven run; it contains the edges."""
    plans: list[e.TasksPlanned] = []
    began: dict[str, int] = {}
    done: dict[str, int] = {}
    for place, event in enumerate(events):
        if isinstance(event, e.TasksPlanned):
            plans.append(event)
        elif isinstance(event, _BEGINNINGS):
            began.setdefault(event.task, place)
            if isinstance(event, e.TaskSucceeded):
                done[event.task] = place
    needs = {task.id: list(task.after) for task in graph.nodes} if graph else _needs(plans, began)
    names = needs or (name for plan in plans for name in plan.tasks)
    any_of = frozenset(name for plan in plans for name in plan.any_of or ())
    return TaskOrder(planned=tuple(dict.fromkeys(names)), needs=needs, any_of=any_of, began=began, done=done)


def begins_at(order: TaskOrder, task: str) -> int | None:
    """The position of the first event of the task or of its iterations; None if it has not started."""
    places = [place for name, place in order.began.items() if name == task or name.startswith(f"{task}[")]
    return min(places, default=None)


def tasks_from(order: TaskOrder, tasks: Iterable[str], task: str) -> set[str]:
    """Of these tasks, `task` and everything after it. Without `needs` it must have started."""
    if order.needs is not None:
        return {task, *_later(order.needs, task)}.intersection(tasks)
    begun = begins_at(order, task)
    assert begun is not None, "a task that has not started has no place in the order"
    # A task that ran at the same time counts as later, too: the log does not show that it is independent.
    return {name for name in tasks if order.done.get(name, begun) >= begun}


def _needs(plans: list[e.TasksPlanned], began: Iterable[str]) -> dict[str, list[str]] | None:
    """Each worker that claims a run plans it again, and a long plan has several events."""
    needs: dict[str, list[str]] = {}
    for plan in plans:
        needs |= {name: (plan.needs or {}).get(name, []) for name in plan.tasks}
    if any(plan.needs for plan in plans):
        return needs
    # No edges: either every task is a last task, or the plan left the edges out.
    last = {name for plan in plans for name in plan.last or ()}
    is_flat = last.issuperset(needs) or (len(needs) == 1 and needs.keys() >= set(began))
    return needs if needs and is_flat else None


def _later(needs: Mapping[str, list[str]], task: str) -> set[str]:
    """Every task that needs it, also indirectly; itself only if it is in a cycle."""
    waiting: dict[str, list[str]] = {}
    for name, wanted in needs.items():
        for other in wanted:
            waiting.setdefault(other, []).append(name)
    found: set[str] = set()
    open_ends = [task]
    while open_ends:
        for name in waiting.get(open_ends.pop(), ()):
            if name not in found:
                found.add(name)
                open_ends.append(name)
    return found
