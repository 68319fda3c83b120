"""How many ready tasks one thread is given. Pure: counts tasks, reads no clock.

A group is as many tasks as may run at once; their starts are reported, then the thread gets them. If more are
ready that call the same functions, the thread goes on with these: each begins when one of the group has
ended, so no more run at once than allowed. Their starts are reported when the scheduler has control again:
after a millisecond at the latest, and before their ends.
"""

from types import FunctionType


def function_key(func: object) -> int:
    """The same for closures that are made by one piece of code."""
    return id(func.__code__) if type(func) is FunctionType else id(func)


class Grouping:
    """All that may run at once, as long as they are quick.

    After a group that was overdue, further tasks begin in threads of their own: at first as many as may run
    at once, and twice as many after each further such group. So a wide run of slow tasks is seldom delayed,
    and one slow task among quick ones does not end the grouping.
    """

    def __init__(self, parallelism: int, *, is_off: bool = False) -> None:
        self._is_off = is_off
        self._alone_left = 0
        self._alone_next = parallelism

    def size(self, ready: int) -> int:
        """How many of the ready tasks the next thread gets; the others wait for the next call."""
        if self._is_off:
            return 1
        if self._alone_left:
            self._alone_left -= 1
            return 1
        return ready

    def note_overdue(self) -> None:
        self._alone_left = self._alone_next
        self._alone_next *= 2
