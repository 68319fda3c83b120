"""Until when a worker may start something: one lease period after its last successful renewal was *sent*.

Others take its runs over when the lease has stood still for a whole lease period by their own clock, which
begins when they see the renewal, so later than it was sent. A worker that keeps to its deadline therefore
starts nothing after it was taken over, however long it was cut off, paused or suspended.

A renewal that comes after the deadline does not say whether the runs are still ours: the log is asked that,
run by run, before anything is started again.
"""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.clock import elapsed

# Called after each renewal; True: the deadline had passed before it.
OnRenewed = Callable[[bool], None]


class LeaseDeadline:
    def __init__(self, lease_sec: float) -> None:
        self._lease_sec = lease_sec
        self._subscribers: set[OnRenewed] = set()
        self.until = float("-inf")

    @property
    def is_current(self) -> bool:
        return elapsed() < self.until

    def subscribe(self, on_renewed: OnRenewed) -> None:
        self._subscribers.add(on_renewed)

    def unsubscribe(self, on_renewed: OnRenewed) -> None:
        self._subscribers.discard(on_renewed)

    def renew(self, sent_at: float) -> None:
        """`sent_at`: the value of `elapsed` before the renewal was sent."""
        has_lapsed = not self.is_current
        self.until = max(self.until, sent_at + self._lease_sec)
        for on_renewed in tuple(self._subscribers):
            on_renewed(has_lapsed)
