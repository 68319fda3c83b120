"""The threads that call user code, kept between runs: starting one costs more than a small task.

Threads are daemons: one whose task never returns must not keep the process alive. The pool does not
need it: a thread counts as free only after its task has returned.
"""

import threading
from collections import deque
from queue import SimpleQueue

from pyoco_server.engine.control import Event
from pyoco_server.engine.tasks.attempt import TaskAttempt

# Threads that may wait for work; more than these end when they have nothing to do.
IDLE_THREADS_MAX = 64

_idle: "deque[_PooledThread]" = deque()


class _PooledThread:
    """One thread and its mailbox."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[tuple[TaskAttempt, SimpleQueue[Event]]] = SimpleQueue()
        threading.Thread(target=self._work, name="pyoco-task", daemon=True).start()

    def _work(self) -> None:
        is_kept = True
        while is_kept:
            attempt, events = self.inbox.get()
            ended = attempt.perform()
            is_kept = len(_idle) < IDLE_THREADS_MAX
            if is_kept:
                _idle.append(self)  # before the news is out, so that its successor finds a free hand
            events.put(ended)
            del attempt, events, ended  # an idle thread must not keep a run's results alive


def hand(attempt: TaskAttempt, events: "SimpleQueue[Event]") -> None:
    """Have it performed by a free thread, or a new one; how it ended goes to `events`."""
    try:
        free = _idle.pop()
    except IndexError:
        free = _PooledThread()
    free.inbox.put((attempt, events))
