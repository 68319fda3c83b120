"""The time of a run under test. It stands still while code is executed, and jumps while the run waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

# Any fixed instant: a test that prints a date prints the same one tomorrow.
START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualTime:
    """Give it to `run_flow` to choose the start, or to let the code of tasks take virtual time.

    It may be used for several runs, one after the other: the time goes on.
    """

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError("VirtualTime: start needs a time zone, as in datetime(2026, 1, 1, tzinfo=UTC)")
        self._at = start.timestamp()
        # Of the run in progress: blocks the thread of a task until the time has come. False: another thread.
        self._sleep_in_task: Callable[[float], bool] | None = None

    def now(self) -> float:
        """Unix seconds."""
        return self._at

    def sleep(self, seconds: float) -> None:
        """In place of `time.sleep` in the code of a task: takes no real time.

        Timeouts and backoffs of other tasks that are due meanwhile take place.
        """
        if seconds < 0:
            raise ValueError(f"VirtualTime.sleep: seconds must not be negative, not {seconds!r}")
        if self._sleep_in_task is None or not self._sleep_in_task(seconds):
            self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass between two runs."""
        self._at += seconds

    def attach(self, sleep_in_task: Callable[[float], bool] | None) -> None:
        """For `Simulation`: a run begins, or (None) has ended."""
        self._sleep_in_task = sleep_in_task
