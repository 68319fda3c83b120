"""The threads of one run. Owns their number and their end; knows nothing of tasks but that they can perform.

Threads are daemons: one whose task never returns must not keep the process alive.
"""

import threading
from queue import SimpleQueue

from pyoco_server.engine.attempt import Attempt
from pyoco_server.engine.control import Event


class Crew:
    """Hires a thread only when all others are busy."""

    def __init__(self, name: str, events: "SimpleQueue[Event]") -> None:
        self._name = name
        self._events = events
        self._inbox: SimpleQueue[Attempt | None] = SimpleQueue()
        self._threads = 0

    def hand(self, attempt: Attempt, busy: int) -> None:
        """`busy` is how many attempts are under way without this one."""
        if busy >= self._threads:
            self._threads += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._inbox.put(attempt)

    def lose_one(self) -> None:
        """A thread is stuck in user code; it does not count until it comes back, if ever."""
        self._threads -= 1

    def dismiss(self) -> None:
        self._inbox.put(None)

    def _work(self) -> None:
        while (attempt := self._inbox.get()) is not None:
            self._events.put(attempt.perform())
        # Passed on, so that one notice reaches every thread, also one that comes back late.
        self._inbox.put(None)
