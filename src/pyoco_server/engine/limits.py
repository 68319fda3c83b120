"""What one run may use: threads, time, whether it may start anything at all, how it waits. Values only."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from pyoco_server.engine.control import Event

# Gives the next event out of the mailbox, or raises Empty after so many seconds (None: no limit). The
# last argument: threads of the run may put events there too, not only callers from outside.
Receive = Callable[[SimpleQueue[Event], float | None, bool], Event]


def receive(mailbox: SimpleQueue[Event], timeout_sec: float | None, _beside_others: bool) -> Event:
    return mailbox.get(timeout=timeout_sec)


@dataclass(frozen=True, slots=True)
class RunLimits:
    parallelism: int
    timeout_sec: float | None = None
    may_start: Callable[[], bool] | None = None
    # A task beside which no other could run is executed by the scheduler's own thread: two switches between
    # threads cost more than a small task. Only where the process can be ended: the thread cannot be left.
    lone_tasks_here: bool = False
    receive: Receive = receive

    def __post_init__(self) -> None:
        if self.parallelism < 1:
            raise ValueError(f"parallelism must be at least 1, not {self.parallelism}")
        if self.timeout_sec is not None and not self.timeout_sec > 0:
            raise ValueError(f"timeout_sec must be above 0, not {self.timeout_sec}")

    def deadline(self, now: float) -> float:
        return math.inf if self.timeout_sec is None else now + self.timeout_sec
