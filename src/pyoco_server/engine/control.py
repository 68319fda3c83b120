"""Requests to a run: cancel, abandon, acknowledge a result, answer a wait. Owns the mailbox.

Every function here may be called from any thread at any time, also twice, also when the run is over.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import NamedTuple

from pyoco.core.models import RunContext, RunStatus

from pyoco_server import clock
from pyoco_server.engine.listener import WaitAnswer
from pyoco_server.engine.outcome import OutcomeStatus
from pyoco_server.engine.tasks.attempt import TaskAttempt
from pyoco_server.engine.tasks.task_group import TaskGroup

# A cancel or an answer may arrive before its run has begun here: this many are kept, the oldest are dropped.
# A dropped answer is not lost: the run cannot be parked, and its next claim finds the answer.
EARLY_CANCELS_MAX = 1024
EARLY_ANSWERED_MAX = 1024


class GroupEnded(NamedTuple):
    """Its thread has ended: with all tasks of the group, or before those that have not begun."""

    group: TaskGroup


class ResultAcknowledged(NamedTuple):
    """The listener has made this attempt's result durable."""

    attempt: TaskAttempt


class Answered(NamedTuple):
    """The wait with this record name has ended, and its end is in the log."""

    name: str
    answer: WaitAnswer


@dataclass(frozen=True, slots=True)
class Woken:
    """A flag of the control has changed."""


Event = GroupEnded | ResultAcknowledged | Answered | Woken


class Control:
    """The handle on one run for other threads."""

    def __init__(
        self, run_context: RunContext, mailbox: Callable[[], SimpleQueue[Event]] = SimpleQueue
    ) -> None:
        self.run_context = run_context
        self.events = mailbox()
        self.is_stopping = False  # tasks are asked to return, with any status of the run
        self.is_abandoned = False  # running tasks are no longer waited for
        self.is_held = False  # tasks are ready but may not be started now
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
            if status is not OutcomeStatus.PARKED:  # a parked run is not over, and pyoco has no such status
                # pyoco has no ABANDONED either. Tasks left behind must continue to see a cancelled run.
                known = OutcomeStatus.CANCELLED if status is OutcomeStatus.ABANDONED else status
                self.run_context.status = RunStatus[known]
                self.run_context.end_time = clock.now()
        return status


class RunRegistry:
    """Finds live runs by id, and keeps cancels and answers that arrived before their run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[Control] = set()  # few: one for each run at once
        self._early: dict[str, bool] = {}  # cancelled before they began, oldest first
        self._early_answers: dict[str, dict[str, WaitAnswer]] = {}  # by run, then by task

    def add(self, control: Control) -> None:
        run_id = control.run_context.run_id
        with self._lock:
            self._live.add(control)
            is_cancelled = self._early.pop(run_id, False)
            for name, answer in self._early_answers.pop(run_id, {}).items():
                control.answer(name, answer)
        if is_cancelled:
            control.cancel()

    def remove(self, control: Control) -> None:
        with self._lock:
            self._live.discard(control)

    def find_or_cancel_early(self, run_id: str) -> list[Control]:
        """The live runs with this id. If there is none, the run is cancelled when it begins."""
        with self._lock:
            found = self._find_live(run_id)
            if not found:
                self._early[run_id] = True
                if len(self._early) > EARLY_CANCELS_MAX:
                    del self._early[next(iter(self._early))]
        return found

    def wake(self) -> None:
        with self._lock:
            for control in self._live:
                control.wake_if_held()

    def answer(self, run_id: str, name: str, answer: WaitAnswer) -> None:
        """Pass the answer to the live runs with this id, or keep it until the run begins."""
        with self._lock:
            found = self._find_live(run_id)
            for control in found:
                control.answer(name, answer)
            if not found:
                self._early_answers.setdefault(run_id, {})[name] = answer
                if len(self._early_answers) > EARLY_ANSWERED_MAX:
                    del self._early_answers[next(iter(self._early_answers))]

    def _find_live(self, run_id: str) -> list[Control]:
        return [control for control in self._live if control.run_context.run_id == run_id]
