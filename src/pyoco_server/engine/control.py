"""What other threads may do to a run: cancel, abandon, acknowledge a result, answer a wait. Owns the mailbox.

Everything here is safe to call from any thread at any time, also twice, also when the run is over.
"""

import threading
from dataclasses import dataclass
from queue import SimpleQueue

from pyoco.core.models import RunContext, RunStatus

from pyoco_server import clock
from pyoco_server.engine.answer import WaitAnswer
from pyoco_server.engine.outcome import OutcomeStatus
from pyoco_server.engine.tasks.attempt import AttemptEnded, TaskAttempt

# For so many runs that have not begun here yet a cancel, or answers, are remembered; oldest forgotten first.
# A forgotten answer is no loss: the run cannot be parked then, and finds it when it comes back.
EARLY_CANCELS_MAX = 1024
EARLY_ANSWERED_MAX = 1024


@dataclass(frozen=True, slots=True)
class ResultAcknowledged:
    """The listener has made this attempt's result durable."""

    attempt: TaskAttempt


@dataclass(frozen=True, slots=True)
class Answered:
    """The wait with this record name has ended, and the log knows."""

    name: str
    answer: WaitAnswer


@dataclass(frozen=True, slots=True)
class Woken:
    """A flag has changed; look at them."""


Event = AttemptEnded | ResultAcknowledged | Answered | Woken


class Control:
    """The outside's handle on one run."""

    def __init__(self, run_context: RunContext) -> None:
        self.run_context = run_context
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.is_stopping = False  # tasks are asked to return, whatever the run's status says
        self.is_abandoned = False  # nothing waits for running tasks any more
        self.is_held = False  # tasks are ready, and may not be started now
        self._lock = threading.Lock()
        self._is_closed = False
        if not self.is_cancelling():
            run_context.status = RunStatus.RUNNING

    def cancel(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self.run_context.status = RunStatus.CANCELLING
        self.events.put(Woken())

    def abandon(self) -> None:
        self.cancel()
        self.is_abandoned = True
        self.events.put(Woken())

    def answer(self, name: str, answer: WaitAnswer) -> None:
        self.events.put(Answered(name, answer))

    def wake_if_held(self) -> None:
        if self.is_held:
            self.events.put(Woken())

    def is_cancelling(self) -> bool:
        return self.run_context.status in (RunStatus.CANCELLING, RunStatus.CANCELLED)

    def close(self, status: OutcomeStatus) -> OutcomeStatus:
        """Fix the ending. A cancel accepted before this moment wins over success and failure."""
        with self._lock:
            self._is_closed = True
            if self.is_cancelling() and status is not OutcomeStatus.ABANDONED:
                status = OutcomeStatus.CANCELLED
            if status is not OutcomeStatus.PARKED:  # the run is not over then, and pyoco has no word for it
                self._end(status)
        return status

    def _end(self, status: OutcomeStatus) -> None:
        # pyoco has no word for ABANDONED, and left-behind tasks should go on seeing a cancelled run.
        known = OutcomeStatus.CANCELLED if status is OutcomeStatus.ABANDONED else status
        self.run_context.status = RunStatus[known]
        self.run_context.end_time = clock.now()


class RunRegistry:
    """Finds live runs by id, and remembers cancels and answers that came before their run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[Control] = set()  # as many as runs at once: few
        self._early: dict[str, None] = {}
        self._early_answers: dict[str, dict[str, WaitAnswer]] = {}  # by run, then by task

    def enter(self, control: Control) -> None:
        run_id = control.run_context.run_id
        with self._lock:
            self._live.add(control)
            is_cancelled = run_id in self._early
            self._early.pop(run_id, None)
            for name, answer in self._early_answers.pop(run_id, {}).items():
                control.answer(name, answer)
        if is_cancelled:
            control.cancel()

    def leave(self, control: Control) -> None:
        with self._lock:
            self._live.discard(control)

    def find(self, run_id: str) -> list[Control]:
        """The live runs of this id; if there is none, the id is remembered as cancelled."""
        with self._lock:
            found = [control for control in self._live if control.run_context.run_id == run_id]
            if not found:
                self._early[run_id] = None
                if len(self._early) > EARLY_CANCELS_MAX:
                    del self._early[next(iter(self._early))]
        return found

    def wake(self) -> None:
        with self._lock:
            for control in self._live:
                control.wake_if_held()

    def answer(self, run_id: str, name: str, answer: WaitAnswer) -> None:
        """Passed on to the live runs of this id; if there is none, kept for the one to come."""
        with self._lock:
            found = [control for control in self._live if control.run_context.run_id == run_id]
            for control in found:
                control.answer(name, answer)
            if not found:
                self._early_answers.setdefault(run_id, {})[name] = answer
                if len(self._early_answers) > EARLY_ANSWERED_MAX:
                    del self._early_answers[next(iter(self._early_answers))]
