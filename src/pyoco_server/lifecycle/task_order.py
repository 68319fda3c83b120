"""What a run's log says of the order of its tasks: who waits for whom, or else who was done before whom.

A flow with loops and choices is walked one task after the other and has no edges to write down, and those of
a very large graph are left out of the plan. The order of the log is right for all of them: what comes after a
task begins when that one's success is in the log.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import Graph

# With one of these a task has begun.
_BEGINNINGS = (e.TaskStarted, e.TaskWaiting, e.TaskSucceeded, e.TaskFailed)


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """`planned`: its tasks, in their order. `needs`: by task those it waits for; None: the plan does not say.

    `any_of`: the tasks for which one of those they need is enough. `began`, `done`: by task the place in the
    log of its first word, and of its success.
    """

    planned: tuple[str, ...]
    needs: dict[str, list[str]] | None
    any_of: frozenset[str]
    began: dict[str, int]
    done: dict[str, int]


def course_of(events: Iterable[e.Event], graph: Graph | None = None) -> Course:
    """`graph`: of a client-driven run, which has its edges there."""
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
    return Course(planned=tuple(dict.fromkeys(names)), needs=needs, any_of=any_of, began=began, done=done)


def begins_at(course: Course, task: str) -> int | None:
    """Where the log first speaks of it, or of an iteration of it; None for a task that has not begun."""
    places = [place for name, place in course.began.items() if name == task or name.startswith(f"{task}[")]
    return min(places, default=None)


def from_task_on(course: Course, tasks: Iterable[str], task: str) -> set[str]:
    """Of these tasks that one, and whatever comes after it. Without `needs` it must have begun."""
    if course.needs is not None:
        return {task, *_later(course.needs, task)}.intersection(tasks)
    begun = begins_at(course, task)
    assert begun is not None, "what has not begun has no place among the others"
    # A task that was at work beside it stays with it, too: nobody said that it does not wait for it.
    return {name for name in tasks if course.done.get(name, begun) >= begun}


def _needs(plans: list[e.TasksPlanned], began: Iterable[str]) -> dict[str, list[str]] | None:
    """Each worker that claims a run plans it again, and a long plan comes in portions."""
    needs: dict[str, list[str]] = {}
    for plan in plans:
        needs |= {name: (plan.needs or {}).get(name, []) for name in plan.tasks}
    if any(plan.needs for plan in plans):
        return needs
    # No edges: either there are none, because each task is a last one, or nobody said.
    last = {name for plan in plans for name in plan.last or ()}
    is_flat = last.issuperset(needs) or (len(needs) == 1 and needs.keys() >= set(began))
    return needs if needs and is_flat else None


def _later(needs: Mapping[str, list[str]], task: str) -> set[str]:
    """Everything that waits for it, near and far; itself only where it stands in a circle."""
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
