"""Until when a worker may start tasks: one lease period after its last successful renewal was *sent*.

Its runs are taken over when the lease was not renewed for a whole lease period by the clock of another
process. That period begins when the renewal is seen, so later than it was sent. A worker that respects its
deadline therefore starts nothing after a takeover, for any time that it was cut off, paused or suspended.

After a renewal that comes too late, the worker may have lost its runs: each is read from the log before
another task is started.
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
