"""The engine's callbacks. Owns their signatures; the code that runs a flow implements them.

All callbacks of a run come from the thread that called `Engine.run`, one at a time.

Names are record names: the task's, or `step[2]` for an iteration of a task in a loop, or `step#2` for the
second position of a program at which the task is reached. A task in a loop is also reported as a whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.flows.waits import OnTimeout


class StopRun(Exception):
    """Raised by a listener: the run was taken over. The engine stops and returns ABANDONED."""


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """The end of a wait: the task's result, or an error if it was rejected or its deadline has passed."""

    output: object = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WaitPrompt:
    """What a task waits for: the key that its answer must name, and what happens without one."""

    key: str
    prompt: Mapping[str, object]
    timeout_sec: float | None
    on_timeout: OnTimeout


class Listener:
    """Callbacks of a run. By default they do nothing, and successes are acknowledged at once."""

    def wired(self, needs: Mapping[str, Sequence[str]], any_of: Sequence[str]) -> None:
        """Right before `planned`, for a flow without control flow: the tasks that each task needs.

        `any_of`: the tasks for which one of those they need is enough.
        """

    def planned(self, names: Sequence[str], last: Sequence[str]) -> None:
        """Once, first: every task of the flow by its plain name, each after the tasks it needs.

        `last`: the tasks that no other task needs, in a flow without control flow.
        """

    def task_started(self, name: str, attempt: int, inputs: Mapping[str, object], started_at: float) -> None:
        """Before the user's code of this attempt is called. Attempts count from 1.

        If many tasks are ready, those behind the first ones of a group are reported up to a millisecond
        later, and always before their end (`walk/grouping.py`).
        """

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: object,
        started_at: float,
        ended_at: float,
        acknowledged: Callable[[], None],
    ) -> None:
        """Successors start once `acknowledged()` was called: from any thread, once or more often.

        A run does not wait for acknowledgements on which no task depends.
        """
        acknowledged()

    def task_failed(
        self,
        name: str,
        attempt: int,
        error: str,
        traceback: str,
        started_at: float,
        ended_at: float,
        will_retry: bool,
    ) -> None:
        """Attempt 0 means that the task never started, because a task it needs had failed."""

    def task_cancelled(self, name: str) -> None:
        """The task will not succeed or fail any more, whether or not it had started."""

    def task_waiting(self, name: str, attempt: int, asked: WaitPrompt) -> None:
        """Also if an earlier claim of the run has reported it. `Engine.answer` ends the wait."""
