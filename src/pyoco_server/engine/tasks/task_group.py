"""Tasks that one thread executes one after the other: a switch between threads costs more than a small task.

Owns who holds each task of a group: the thread that executes the group, or the scheduler, which takes back
tasks that have not begun. Does not decide when that is necessary.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from pyoco_server.engine.tasks.attempt import AttemptEnded, TaskAttempt

T = TypeVar("T")


class TaskGroup:
    """The thread calls `perform`, the scheduler everything else, at the same time.

    No lock is needed: a task is taken out of `_unbegun` by one of them, because `popleft` of a deque is
    atomic.
    """

    def __init__(self, attempts: Iterable[TaskAttempt], may_begin: Callable[[], bool]) -> None:
        self._unbegun = deque(attempts)
        self._ended: deque[AttemptEnded] = deque()
        self._may_begin = may_begin  # called before each task but the first, in the thread that executes it
        self.has_begun = False

    def perform(self) -> None:
        """Return when nothing is left, when a task has failed, or when no further task may begin now.

        What has not begun then is left to the scheduler: a failure may end the run.
        """
        self.has_begun = True
        attempt = _take(self._unbegun)
        while attempt is not None:
            ended = attempt.perform()
            self._ended.append(ended)
            is_going_on = self._unbegun and ended.failure is None and self._may_begin()
            attempt = _take(self._unbegun) if is_going_on else None

    def take_ended(self) -> list[AttemptEnded]:
        """The ends that were not taken yet, in their order."""
        return _take_all(self._ended)

    def take_back(self) -> list[TaskAttempt]:
        """The tasks that have not begun. They will not begin here."""
        return _take_all(self._unbegun)


def _take(items: deque[T]) -> T | None:
    try:
        return items.popleft()
    except IndexError:
        return None


def _take_all(items: deque[T]) -> list[T]:
    taken: list[T] = []
    while (item := _take(items)) is not None:
        taken.append(item)
    return taken
