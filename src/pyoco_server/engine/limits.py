"""What one run is given: threads, time, how it waits, and the results of earlier claims. Values only."""

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue

from pyoco_server.engine.control import Event
from pyoco_server.engine.tasks.task_group import TaskGroup
from pyoco_server.engine.tasks.thread_pool import submit

# Returns the next event of the mailbox, or raises Empty after so many seconds (None: no limit). The last
# argument: threads of the run may put events there too, not only other callers.
Receive = Callable[[SimpleQueue[Event], float | None, bool], Event]

# Ready tasks are given to one thread. Those that have not begun after this long get threads of their own.
RECRUIT_AFTER_SEC = 0.001


def receive(mailbox: SimpleQueue[Event], timeout_sec: float | None, _beside_others: bool) -> Event:
    return mailbox.get(timeout=timeout_sec)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a run uses of its machine. `pyoco_server.testing` replaces it: there time is virtual."""

    stopwatch: Callable[[], float] = time.monotonic  # deadlines and backoffs are measured by it
    # The random part of a backoff. Not `random.random`: flows seed that generator and rely on its sequence,
    # and forked processes share it.
    chance: Callable[[], float] = random.SystemRandom().random
    # Performs the group in another thread, then puts its end into the mailbox.
    submit: Callable[[TaskGroup, SimpleQueue[Event]], None] = submit


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Results of earlier claims, by record name. Failures count where they are final.

    They are final for a wait and for a task that fails alone.
    """

    results: Mapping[str, object] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunLimits:
    parallelism: int
    timeout_sec: float | None = None
    may_start: Callable[[], bool] | None = None
    # The scheduler's own thread executes a task that has no other task beside it: two switches between
    # threads cost more than a small task. Only for processes that can be killed: the thread cannot be left.
    lone_tasks_here: bool = False
    receive: Receive = receive
    recruit_after_sec: float = RECRUIT_AFTER_SEC  # 0: every task begins in a thread of its own
    mailbox: Callable[[], SimpleQueue[Event]] = SimpleQueue  # makes the mailbox of a run
    # While it returns True, a task of a group may begin before its start is reported. Called in any thread.
    is_quiet: Callable[[], bool] = lambda: True
    machine: Machine = Machine()

    def __post_init__(self) -> None:
        if self.parallelism < 1:
            raise ValueError(f"parallelism must be at least 1, not {self.parallelism}")
        if self.timeout_sec is not None and not self.timeout_sec > 0:
            raise ValueError(f"timeout_sec must be above 0, not {self.timeout_sec}")

    def deadline(self, now: float) -> float:
        return math.inf if self.timeout_sec is None else now + self.timeout_sec
