"""Tasks that one thread executes one after the other: a switch between threads costs more than a small task.

Owns who holds each task of a group: the thread that executes the group, or the scheduler, which takes back
tasks that have not begun. Does not decide when that is necessary.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from pyoco_server import clock
from pyoco_server.engine.tasks.attempt import AttemptEnded, TaskAttempt

T = TypeVar("T")


class TaskGroup:
    """The thread calls `perform`, the scheduler everything else, at the same time.

    No lock is needed: a task is taken out of `_unbegun` by one of them, because `popleft` of a deque is
    atomic.
    """

    def __init__(
        self,
        attempts: Iterable[TaskAttempt],
        may_begin: Callable[[], bool],
        further: Iterable[TaskAttempt] = (),
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """`further`: tasks that the thread begins afterwards, each in the place of one that has ended. Their
        starts are not reported yet. `may_go_on` is called before each of them, after `may_begin`.
        """
        self._unbegun = deque(attempts)
        self._further = deque(further)
        self._may_go_on = may_go_on
        self.unreported = dict.fromkeys(self._further)  # of the scheduler
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
            attempt = self._next() if ended.failure is None else None

    def _next(self) -> TaskAttempt | None:
        if not (self._unbegun or self._further) or not self._may_begin():
            return None
        attempt = _take(self._unbegun)
        if attempt is None and self._may_go_on():
            attempt = _take(self._further)
            if attempt is not None:
                attempt.started_at = clock.now()
        return attempt

    def take_ended(self) -> list[AttemptEnded]:
        """The ends that were not taken yet, in their order."""
        return _take_all(self._ended)

    def take_back(self) -> list[TaskAttempt]:
        """The tasks that have not begun. They will not begin here. Call `take_back_further` before."""
        return _take_all(self._unbegun)

    def take_back_further(self) -> list[TaskAttempt]:
        taken = _take_all(self._further)
        for attempt in taken:
            del self.unreported[attempt]
        return taken


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
