"""Tasks that one thread executes one after the other: a switch between threads costs more than a small task.

Owns who holds each task of a group: the thread that executes the group, or the scheduler, which takes back
tasks that have not begun. Does not decide when that is necessary.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from pyoco_server import clock
from pyoco_server.engine.tasks.attempt import AttemptEnded, TaskAttempt
from pyoco_server.engine.tasks.failure import Failure

T = TypeVar("T")


class Further(NamedTuple):
    """Tasks that the thread of a group begins afterwards, each in the place of one that has ended.

    Their starts are not reported yet. Before each of them `may_go_on` is called, then `prepare`, which
    resolves its arguments and calls no code of users. `save` makes a result visible to the tasks after it.
    """

    attempts: Iterable[TaskAttempt]
    may_go_on: Callable[[], bool]
    prepare: Callable[[TaskAttempt], Failure | None]
    save: Callable[[AttemptEnded], None]


class TaskGroup:
    """The thread calls `perform`, the scheduler everything else, at the same time.

    A task is taken out of `_unbegun` by one of them, because `popleft` of a deque is atomic. A further task
    is taken out and prepared under a lock: the scheduler never finds one that is taken and not prepared.
    """

    def __init__(
        self,
        attempts: Iterable[TaskAttempt],
        may_begin: Callable[[], bool],
        further: Further | None = None,
    ) -> None:
        self._unbegun = deque(attempts)
        self._rules = further
        self._further = deque(further.attempts if further else ())
        self._preparing = threading.Lock()
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
            if self._further and self._rules is not None and ended.failure is None:
                self._rules.save(ended)
            self._ended.append(ended)
            attempt = self._next() if ended.failure is None else None

    def _next(self) -> TaskAttempt | None:
        if not (self._unbegun or self._further) or not self._may_begin():
            return None
        return _take(self._unbegun) or self._next_further()

    def _next_further(self) -> TaskAttempt | None:
        if self._rules is None or not self._rules.may_go_on():
            return None
        with self._preparing:
            attempt = _take(self._further)
            failure = self._rules.prepare(attempt) if attempt is not None else None
        if attempt is not None and failure is not None:
            self._ended.append(AttemptEnded(attempt, clock.now(), None, failure))
            return None
        return attempt

    def take_ended(self) -> list[AttemptEnded]:
        """The ends that were not taken yet, in their order."""
        return _take_all(self._ended)

    def take_back(self) -> list[TaskAttempt]:
        """The tasks that have not begun. They will not begin here. Call `take_back_further` before."""
        return _take_all(self._unbegun)

    def take_back_further(self) -> list[TaskAttempt]:
        with self._preparing:
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
