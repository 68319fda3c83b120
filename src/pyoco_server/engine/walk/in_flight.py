"""The attempts in flight of one run: how they start and end. Owns success, retry, failure and expiry.

Does not wait and does not choose what to start; the scheduler does. The walk through the flow gets a signal
for each end.
"""

import heapq
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import NamedTuple

from pyoco.core.context import Context

from pyoco_server import clock
from pyoco_server.engine.control import Control, Event, ResultAcknowledged
from pyoco_server.engine.limits import Machine, RunLimits
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import AttemptEnded, TaskAttempt
from pyoco_server.engine.tasks.context import EngineContext
from pyoco_server.engine.tasks.failure import Failure, describe, try_call
from pyoco_server.engine.tasks.task_group import Further, TaskGroup
from pyoco_server.engine.tasks.wiring import Wiring
from pyoco_server.engine.walk.plan import TaskSpec

RETRY_BACKOFF_FIRST_SEC = 0.1
RETRY_BACKOFF_FACTOR = 2.0
RETRY_BACKOFF_MAX_SEC = 5.0

_chance = Machine().chance


class AttemptSucceeded(NamedTuple):
    """The task has returned, and the listener was called."""

    spec: TaskSpec
    output: object


class Released(NamedTuple):
    """The listener has acknowledged the success: successors may start."""

    spec: TaskSpec


class AttemptFailed(NamedTuple):
    """The task has failed and will not be retried."""

    spec: TaskSpec
    failure: Failure


Signal = AttemptSucceeded | Released | AttemptFailed


class TasksInFlight:
    """The reporter records and reports every change before the walk gets its signal."""

    def __init__(
        self,
        control: Control,
        ctx: EngineContext,
        wiring: Wiring,
        reporter: Reporter,
        limits: RunLimits,
        waiting: deque[TaskAttempt],
    ) -> None:
        """`waiting`: the tasks that are ready and not in flight; some come back from a group."""
        self._control = control
        self._limits = limits
        self._machine = limits.machine
        self._ctx = ctx
        self._wiring = wiring
        self._reporter = reporter
        self._waiting = waiting
        self._unacknowledged: set[TaskAttempt] = set()
        self.left_behind: set[TaskAttempt] = set()
        self.running: dict[TaskAttempt, None] = {}  # in the order of their starts; also those in `returned`
        self.returned: deque[TaskAttempt] = deque()  # started, but taken back before their code was called
        self._groups: dict[TaskGroup, float] = {}  # with tasks that may have to be taken back, and when
        self.timers = _Timers(limits.machine.stopwatch)
        self.retries_due = 0
        self.signals: deque[Signal] = deque()

    def __bool__(self) -> bool:
        return bool(self.running or self._unacknowledged or self.retries_due or self.signals)

    def begin(self, attempts: Iterable[TaskAttempt], further: list[TaskAttempt]) -> None:
        """Start them in one pooled thread. One whose arguments cannot be resolved fails at once.

        `further`: those that the thread begins when the others have ended.
        """
        prepared = []
        for attempt in attempts:
            failure = self._prepare(attempt)
            if failure is not None:
                self._fail(attempt, failure, clock.now())
                continue
            prepared.append(attempt)
            self.running[attempt] = None
            if attempt.deadline < math.inf:
                self.timers.add(attempt.deadline, Expiry(attempt))
        if prepared:
            self.submit(prepared, further)
        else:
            self._return_to_waiting(further)

    def submit(self, prepared: list[TaskAttempt], further: Sequence[TaskAttempt] = ()) -> None:
        rules = Further(further, self._limits.is_quiet, self._resolve, self._save) if further else None
        group = TaskGroup(prepared, self._may_begin, rules)
        if len(prepared) > 1 or group.unreported:
            self._groups[group] = self._machine.stopwatch() + self._limits.recruit_after_sec
        self._machine.submit(group, self._control.events)

    def perform(self, attempt: TaskAttempt) -> None:
        """Execute it from start to end in this thread."""
        self.running[attempt] = None
        failure = self._prepare(attempt)
        self.end(attempt.perform() if failure is None else AttemptEnded(attempt, clock.now(), None, failure))

    def overdue_at(self) -> float:
        """When the oldest group should have ended. Groups get equal times, so they are in that order."""
        return next(iter(self._groups.values()), math.inf)

    def wait_for_begin(self) -> bool:
        """True: a group is late because its thread has not run yet. It gets its time once more.

        The processors are busy then, and further threads would wait for them too.
        """
        group = next(iter(self._groups))
        if not group.has_begun:
            del self._groups[group]
            self._groups[group] = self._machine.stopwatch() + self._limits.recruit_after_sec
        return not group.has_begun

    def end_group(self, group: TaskGroup) -> None:
        self._groups.pop(group, None)
        self._collect(group)

    def recall(self) -> bool:
        """Process the ends so far, and take back tasks that have not begun. True: there were some."""
        groups, self._groups = self._groups, {}
        waiting_before = len(self._waiting)
        for group in groups:
            self._collect(group)
        return bool(self.returned) or len(self._waiting) > waiting_before

    def drop_unbegun(self) -> None:
        """The run is stopping: what has not begun does not begin."""
        self.recall()
        while self.returned:
            attempt = self.returned.popleft()
            del self.running[attempt]
            self._reporter.report_cancelled(attempt.name)

    def end(self, ended: AttemptEnded) -> None:
        attempt = ended.attempt
        if attempt not in self.running:
            self.left_behind.discard(attempt)
            return  # its time was up, and that has been reported
        del self.running[attempt]
        if ended.failure is None:
            self._succeed(ended)
        else:
            self._fail(attempt, ended.failure, ended.ended_at)

    def release(self, attempt: TaskAttempt) -> None:
        if attempt in self._unacknowledged:  # the first of possibly several acknowledgements
            self._unacknowledged.remove(attempt)
            self.signals.append(Released(attempt.spec))

    def expire(self, attempt: TaskAttempt) -> None:
        self.recall()
        if attempt not in self.running:
            return  # it ended in time
        if self._ctx.is_cancelled:
            self.leave_behind(attempt)
            return
        self._let_go(attempt)
        failure = Failure(f"Task '{attempt.name}' exceeded timeout of {attempt.spec.timeout_sec}s")
        self._reporter.report_failed(attempt, failure, clock.now())
        self.signals.append(AttemptFailed(attempt.spec, failure))

    def conclude(self, attempt: TaskAttempt, output: object, ended_at: float) -> None:
        """Report the success. `Released` follows when it is acknowledged."""
        acknowledgement = _Acknowledgement(attempt, self._control.events)
        self._reporter.report_succeeded(attempt, output, ended_at, acknowledgement)
        if acknowledgement.was_given_at_once():
            self.signals.append(Released(attempt.spec))
        else:
            self._unacknowledged.add(attempt)

    def leave_behind(self, attempt: TaskAttempt) -> None:
        self._let_go(attempt)
        self._reporter.report_cancelled(attempt.name)

    def _collect(self, group: TaskGroup) -> None:
        self._return_to_waiting(group.take_back_further())
        self.returned.extend(group.take_back())
        for ended in group.take_ended():
            self._note_start(group, ended.attempt)
            self.end(ended)
        for attempt in list(group.unreported):  # the one that the thread executes now
            self._note_start(group, attempt)

    def _note_start(self, group: TaskGroup, attempt: TaskAttempt) -> None:
        """Report a task that the thread has begun by itself. One that has ended before gave it its place."""
        if attempt in group.unreported:
            del group.unreported[attempt]
            self.running[attempt] = None
            self._report_started(attempt)

    def _return_to_waiting(self, further: list[TaskAttempt]) -> None:
        self._waiting.extendleft(reversed(further))

    def _may_begin(self) -> bool:
        """In a pooled thread: may the next task of a group begin? The scheduler has allowed it earlier."""
        may_start = self._limits.may_start
        is_stopping = self._control.is_stopping or self._control.is_cancelling()
        return not is_stopping and (may_start is None or may_start())

    def _prepare(self, attempt: TaskAttempt) -> Failure | None:
        """Number it, resolve its arguments and report it. A failure: the arguments cannot be resolved."""
        failure = self._resolve(attempt)
        self._report_started(attempt)
        return failure

    def _report_started(self, attempt: TaskAttempt) -> None:
        inputs = {name: value for name, value in attempt.arguments.items() if name != "ctx"}
        self._reporter.report_started(attempt, inputs)

    def _resolve(self, attempt: TaskAttempt) -> Failure | None:
        """In the scheduler's thread, or in that of a group."""
        attempt.number += 1
        attempt.run_id = self._control.run_context.run_id
        attempt.started_at = clock.now()
        if attempt.deadline == math.inf:
            attempt.deadline = self._machine.stopwatch() + attempt.spec.timeout_sec
        arguments = try_call(
            self._wiring.arguments, attempt.spec, lambda: self._ctx_for(attempt), on_error=describe
        )
        if isinstance(arguments, Failure):
            return arguments
        attempt.arguments = arguments
        return None

    def _ctx_for(self, attempt: TaskAttempt) -> Context:
        if attempt.deadline == math.inf:
            return self._ctx
        return self._ctx.seen_until(lambda: self._control.is_stopping or attempt.is_abandoned)

    def _succeed(self, ended: AttemptEnded) -> None:
        if not ended.attempt.is_saved:
            self._save(ended)
        self.signals.append(AttemptSucceeded(ended.attempt.spec, ended.output))
        self.conclude(ended.attempt, ended.output, ended.ended_at)

    def _save(self, ended: AttemptEnded) -> None:
        """Make the output visible to other tasks: in the scheduler's thread, or in that of a group."""
        self._wiring.save(ended.attempt.spec, ended.output)
        ended.attempt.is_saved = True

    def _fail(self, attempt: TaskAttempt, failure: Failure, ended_at: float) -> None:
        if self._ctx.is_cancelled:  # it may have raised because of the cancel: cancel wins
            self._reporter.report_cancelled(attempt.name)
            return
        retry_at = self._machine.stopwatch() + backoff_sec(attempt.number - 1, self._machine.chance)
        will_retry = attempt.retries_left > 0 and retry_at < attempt.deadline
        self._reporter.report_failed(attempt, failure, ended_at, will_retry)
        if will_retry:
            self.retries_due += 1
            self.timers.add(retry_at, RetryTimer(attempt.next_attempt()))
        else:
            self.signals.append(AttemptFailed(attempt.spec, failure))

    def _let_go(self, attempt: TaskAttempt) -> None:
        """Its thread stays in the user's code. The run stops waiting for it and ignores its result."""
        del self.running[attempt]
        attempt.abandon()
        if attempt in self.returned:
            self.returned.remove(attempt)  # no thread has called its code
        else:
            self.left_behind.add(attempt)


class _Acknowledgement:
    """Given by the listener, in any thread. Inside of the callback no event is needed."""

    __slots__ = ("_attempt", "_events", "_is_given", "_thread")

    def __init__(self, attempt: TaskAttempt, events: SimpleQueue[Event]) -> None:
        self._attempt = attempt
        self._events = events
        self._thread: int | None = threading.get_ident()  # None after the callback
        self._is_given = False

    def __call__(self) -> None:
        if self._thread == threading.get_ident():
            self._is_given = True
        else:
            self._events.put(ResultAcknowledged(self._attempt))

    def was_given_at_once(self) -> bool:
        """After the callback."""
        self._thread = None
        return self._is_given


@dataclass(frozen=True, slots=True)
class Expiry:
    """The attempt's time is up, if it is still running."""

    attempt: TaskAttempt


@dataclass(frozen=True, slots=True)
class RetryTimer:
    """The attempt may start now."""

    attempt: TaskAttempt


class _Timers:
    """What is due at which instant of the stopwatch.

    Entries are never removed early: an entry without effect is ignored when it is due.
    """

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self._heap: list[tuple[float, int, Expiry | RetryTimer]] = []
        self._numbers = itertools.count()  # orders equal instants

    def add(self, at: float, what: Expiry | RetryTimer) -> None:
        heapq.heappush(self._heap, (at, next(self._numbers), what))

    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def take_due(self) -> Expiry | RetryTimer | None:
        is_due = bool(self._heap) and self._heap[0][0] <= self._stopwatch()
        return heapq.heappop(self._heap)[2] if is_due else None


def backoff_sec(retries_done: int, chance: Callable[[], float] = _chance) -> float:
    """Between half of the step and all of it: tasks that failed together must not retry together."""
    # The exponent is bounded too: 2.0 ** 1024 does not fit into a float.
    step = RETRY_BACKOFF_FIRST_SEC * RETRY_BACKOFF_FACTOR ** min(retries_done, 32)
    return min(RETRY_BACKOFF_MAX_SEC, step) * (1 + chance()) / 2
