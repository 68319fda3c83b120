"""The graph of a client-driven run: its tasks, what each comes after, when each may start.

Values and checks. Its formats and its storage are elsewhere.
"""

import math
import re
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from pyoco_server.json_value import JsonObject

TASKS_MAX = 1000
ATTEMPTS_MAX = 1000
FACTOR_MAX = 100.0
# Limit of every duration in a graph: a year.
SPAN_SEC_MAX = 366 * 86_400.0
# Limit of a backoff: a day.
BACKOFF_SEC_MAX = 86_400.0
CYCLE_SHOWN_MAX = 10
_TASK_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class TaskKind(StrEnum):
    TASK = "task"
    WAIT = "wait"  # not executed: it ends by an answer or by its timeout


class Join(StrEnum):
    """When a task may start, by how the tasks before it have ended."""

    ALL_SUCCESS = "all_success"
    ANY_SUCCESS = "any_success"
    ALL_DONE = "all_done"


class OnTimeout(StrEnum):
    """The outcome of a wait that has no answer at its deadline."""

    FAIL = "fail"
    SUCCEED = "succeed"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    max_attempts: int = 1
    backoff_sec: float = 0.0
    factor: float = 2.0

    def after_sec(self, attempt: int) -> float:
        """How long to wait after this attempt has failed."""
        # Beyond this exponent every growing backoff has reached its limit; a larger one could overflow.
        grown = self.backoff_sec * self.factor ** min(attempt - 1, 100)
        return min(grown, BACKOFF_SEC_MAX)


class GraphTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`wait_key`, `wait_timeout_sec`: of its waits. `timeout_sec`: of the time in which it is RUNNING."""

    id: str
    type: TaskKind = TaskKind.TASK
    after: tuple[str, ...] = ()
    join: Join = Join.ALL_SUCCESS
    retry: RetryPolicy = RetryPolicy()
    timeout_sec: float | None = None
    prompt: JsonObject | None = None
    wait_key: str | None = None
    wait_timeout_sec: float | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of a graph. Without `nodes` it is only a reference to that version."""

    id: str
    version: int
    nodes: tuple[GraphTask, ...] = ()


class GraphProblem(msgspec.Struct, frozen=True):
    """What is wrong. `task` None: with the graph itself."""

    task: str | None
    message: str


def named_only(graph: Graph | None) -> Graph | None:
    """The reference to a graph, without its tasks."""
    return Graph(id=graph.id, version=graph.version) if graph and graph.nodes else graph


def task_of(graph: Graph | None, task: str) -> GraphTask | None:
    return next((one for one in graph.nodes if one.id == task), None) if graph else None


def last_of(graph: Graph) -> tuple[str, ...]:
    """The tasks that no other task comes after."""
    before = {earlier for task in graph.nodes for earlier in task.after}
    return tuple(task.id for task in graph.nodes if task.id not in before)


def graph_problems(graph: Graph) -> list[GraphProblem]:
    """Everything that is wrong with the graph; empty if it can be run."""
    if not 1 <= len(graph.nodes) <= TASKS_MAX:
        count = len(graph.nodes)
        return [GraphProblem(None, f"A graph has 1 to {TASKS_MAX} nodes; this one has {count}.")]
    known = {task.id for task in graph.nodes}
    found = list(_id_problems(graph))
    for task in graph.nodes:
        found += (GraphProblem(task.id, message) for message in _task_problems(task, known))
    if not found:
        found += _cycle_problems(graph)
    return found


def _id_problems(graph: Graph) -> Iterator[GraphProblem]:
    seen: set[str] = set()
    for task in graph.nodes:
        if not _TASK_ID.fullmatch(task.id):
            yield GraphProblem(task.id, "An id has 1 to 64 letters, digits, '_', '.' or '-'.")
        if task.id in seen:
            yield GraphProblem(task.id, "This id is used twice.")
        seen.add(task.id)


def _task_problems(task: GraphTask, known: set[str]) -> Iterator[str]:
    for earlier in task.after:
        if earlier not in known:
            yield f"It comes after {earlier!r}, which the graph does not have."
    if len(set(task.after)) != len(task.after):
        yield "It names a node twice in 'after'."
    if not 1 <= task.retry.max_attempts <= ATTEMPTS_MAX:
        yield f"'retry.max_attempts' is between 1 and {ATTEMPTS_MAX}."
    if not 0 <= task.retry.backoff_sec <= BACKOFF_SEC_MAX:
        yield f"'retry.backoff_sec' is between 0 and {BACKOFF_SEC_MAX:.0f}."
    if not 1 <= task.retry.factor <= FACTOR_MAX:
        yield f"'retry.factor' is between 1 and {FACTOR_MAX:.0f}."
    for name in ("timeout_sec", "wait_timeout_sec"):
        span = getattr(task, name)
        if span is not None and not (math.isfinite(span) and 0 < span <= SPAN_SEC_MAX):
            yield f"{name!r} is more than 0 and at most {SPAN_SEC_MAX:.0f}."
    if task.wait_key is not None and not task.wait_key:
        yield "'wait_key' is not empty."


def _cycle_problems(graph: Graph) -> Iterator[GraphProblem]:
    """A task that never becomes free is in a cycle or after one: going back along its edges finds it."""
    left = _never_free(graph)
    if not left:
        return
    seen: dict[str, int] = {}
    at = next(iter(left))
    while at not in seen:
        seen[at] = len(seen)
        at = next(earlier for earlier in left[at].after if earlier in left)
    cycle = [at, *reversed(list(seen)[seen[at] :])]
    shown = " → ".join(cycle[:CYCLE_SHOWN_MAX]) + (" → …" if len(cycle) > CYCLE_SHOWN_MAX else "")
    yield GraphProblem(at, f"It comes after itself: {shown}.")


def _never_free(graph: Graph) -> dict[str, GraphTask]:
    """The tasks that are left when tasks without predecessors are removed repeatedly."""
    left = {task.id: task for task in graph.nodes}
    waits_for = {task.id: len(task.after) for task in graph.nodes}
    later: dict[str, list[str]] = {task.id: [] for task in graph.nodes}
    for task in graph.nodes:
        for earlier in task.after:
            later[earlier].append(task.id)
    free = [name for name, count in waits_for.items() if count == 0]
    while free:
        name = free.pop()
        del left[name]
        for one in later[name]:
            waits_for[one] -= 1
            if waits_for[one] == 0:
                free.append(one)
    return left
