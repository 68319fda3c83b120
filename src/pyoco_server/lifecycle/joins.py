"""What follows from the end of a task for the tasks after it, and when the whole graph has ended.

Pure walks over a graph with a worklist: each affected edge is visited once.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple, assert_never

from pyoco_server.lifecycle.graph import Graph, GraphTask, Join, last_of
from pyoco_server.lifecycle.run import NEW_TASK, TaskRecord
from pyoco_server.lifecycle.status import TaskStatus

Records = Mapping[str, TaskRecord]

_RAN = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


class Following(NamedTuple):
    """The tasks that can never run, in the order in which they were found, and those that may run now."""

    cancelled: list[str]
    ready: list[str]


class _Tally:
    """How the tasks before a task have ended so far."""

    __slots__ = ("left", "lost", "won")

    def __init__(self, states: Iterable[TaskStatus]) -> None:
        self.left, self.lost, self.won = 0, False, False
        for state in states:
            self.left += not state.is_finished
            self.won |= state is TaskStatus.SUCCEEDED
            self.lost |= state in (TaskStatus.FAILED, TaskStatus.CANCELLED)

    def add_cancelled(self) -> None:
        self.left -= 1
        self.lost = True


def at_the_start(graph: Graph, records: Records) -> Following:
    """Tasks without predecessors, and tasks whose predecessors have reused results."""
    return _Walk(graph, records).over(task.id for task in graph.nodes)


def after_the_end(graph: Graph, records: Records, ended: str) -> Following:
    walk = _Walk(graph, records)
    return walk.over(walk.later.get(ended, ()))


def is_over(graph: Graph, records: Records) -> bool:
    return all(records.get(task.id, NEW_TASK).state.is_finished for task in graph.nodes)


def failed_by(graph: Graph, records: Records) -> str | None:
    """The task that makes an ended graph FAILED; None if the graph has succeeded.

    A failure is forgiven if a task ran after it that does not need its success. Without a last task that has
    succeeded the graph has no result, and the first failed task is named.
    """
    failed = [task.id for task in graph.nodes if _state(records, task.id) is TaskStatus.FAILED]
    forgiven = _forgiven(graph, records)
    unforgiven = [name for name in failed if name not in forgiven]
    if unforgiven:
        return unforgiven[0]
    if any(_state(records, name) is TaskStatus.SUCCEEDED for name in last_of(graph)):
        return None
    return failed[0] if failed else graph.nodes[-1].id


class _Walk:
    def __init__(self, graph: Graph, records: Records) -> None:
        self._tasks = {task.id: task for task in graph.nodes}
        self._records = records
        self._states = {name: _state(records, name) for name in self._tasks}
        self._tallies: dict[str, _Tally] = {}
        self.later: dict[str, list[str]] = {}
        for task in graph.nodes:
            for earlier in task.after:
                self.later.setdefault(earlier, []).append(task.id)

    def over(self, touched: Iterable[str]) -> Following:
        found = Following([], [])
        work = deque(self._tasks[name] for name in touched)
        while work:
            task = work.popleft()
            match self._passes(task):
                case None:
                    continue
                case True:
                    self._states[task.id] = TaskStatus.READY
                    found.ready.append(task.id)
                case False:
                    self._states[task.id] = TaskStatus.CANCELLED
                    found.cancelled.append(task.id)
                    work.extend(self._after_cancelled(task.id))
        return found

    def _passes(self, task: GraphTask) -> bool | None:
        """True: it may run. False: it can never run. None: undecided, or it has already started."""
        if self._states[task.id] is not TaskStatus.PENDING or self._records[task.id].attempt:
            return None  # a task that is retried has passed its join before
        if not task.after:
            return True
        if task.id not in self._tallies:
            self._tallies[task.id] = _Tally(self._states[earlier] for earlier in task.after)
        return _passes(task.join, self._tallies[task.id])

    def _after_cancelled(self, cancelled: str) -> Iterable[GraphTask]:
        for name in self.later.get(cancelled, ()):
            if tally := self._tallies.get(name):
                tally.add_cancelled()
            yield self._tasks[name]


def _passes(join: Join, tally: _Tally) -> bool | None:
    match join:
        case Join.ALL_SUCCESS:
            return False if tally.lost else True if not tally.left else None
        case Join.ANY_SUCCESS:
            return True if tally.won else False if not tally.left else None
        case Join.ALL_DONE:
            return None if tally.left else True
        case _:
            assert_never(join)


def _forgiven(graph: Graph, records: Records) -> set[str]:
    """Backwards from tasks that ran without needing every success, through cancelled tasks."""
    tasks = {task.id: task for task in graph.nodes}
    work = deque(
        task for task in graph.nodes if task.join is not Join.ALL_SUCCESS and _state(records, task.id) in _RAN
    )
    found: set[str] = set()
    while work:
        for earlier in work.popleft().after:
            if earlier not in found:
                found.add(earlier)
                if _state(records, earlier) is TaskStatus.CANCELLED:
                    work.append(tasks[earlier])
    return found


def _state(records: Records, name: str) -> TaskStatus:
    return records.get(name, NEW_TASK).state
