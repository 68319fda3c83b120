"""The threads that call user code, kept between runs: starting one costs more than a small task.

Threads are daemons: one whose task never returns must not keep the process alive. A thread is free only after
its tasks have returned.
"""

import threading
from collections import deque
from queue import SimpleQueue

from pyoco_server.engine.control import Event, GroupEnded
from pyoco_server.engine.tasks.task_group import TaskGroup

# So many idle threads are kept; further ones end when their tasks have returned.
IDLE_THREADS_MAX = 64

_idle: "deque[_PooledThread]" = deque()


class _PooledThread:
    """One thread and its mailbox."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[tuple[TaskGroup, SimpleQueue[Event]]] = SimpleQueue()
        threading.Thread(target=self._work, name="pyoco-task", daemon=True).start()

    def _work(self) -> None:
        is_kept = True
        while is_kept:
            group, events = self.inbox.get()
            group.perform()
            is_kept = len(_idle) < IDLE_THREADS_MAX
            if is_kept:
                _idle.append(self)  # before the event is sent, so that the next task finds a free thread
            events.put(GroupEnded(group))
            del group, events  # an idle thread must not keep a run's results alive


def submit(group: TaskGroup, events: "SimpleQueue[Event]") -> None:
    """Perform the group in a free thread or a new one. Its end is put into `events`."""
    try:
        free = _idle.pop()
    except IndexError:
        free = _PooledThread()
    free.inbox.put((group, events))
