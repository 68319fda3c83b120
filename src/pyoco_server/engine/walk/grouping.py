"""How many ready tasks one thread is given. Pure: counts tasks, reads no clock."""


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
