"""The runs in a slot, on the worker's side: which may join, which must leave. Owns the control page.

A slot executes one run, or several of short flows in turn. Then a run that has not begun is taken back from a
process that does not come to it, and others are moved away from a run that does not return. When the process
dies, only the run whose code was executing counts as crashed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.control_page import LANES, ControlPage, LaneState
from pyoco_server.worker.slots.link import Link
from pyoco_server.worker.slots.slot_run import LeftSlot, SlotRun

# If the process makes no step for this long, runs that have not begun are taken back.
TAKE_BACK_SEC = 0.003
# After this long a run that was expected to be short counts as a long one.
LONG_SEC = 0.02
# After this long other runs that have begun are handed back: sooner if the process sleeps or is stopped, for
# on a busy machine a process may have to wait for a core.
MOVE_BLOCKED_SEC = 0.1
MOVE_SEC = 2.0
# Time counts only up to this between two checks: if the worker itself gets no core, neither do its slots.
CHECK_SEC_MAX = 0.004
# Nor does time count in which the process waits for a core, up to this long: another process would wait too.
# A process waits for one if it does not sleep, and used less than this part of the time.
STARVED_SEC_MAX = 0.1
STARVED_BELOW = 0.5
# A process is ended if it has no runs and does not read for this long that runs were taken back, or if it
# keeps the lock for this long: it was stopped at that moment, or its code has taken the lock.
SILENT_SEC = 1.0
TRY_AGAIN_SEC = 0.001


class Process(Protocol):
    def terminate(self) -> None: ...

    def is_blocked(self) -> bool:
        """Whether it sleeps or is stopped."""

    def processor_sec(self) -> float | None:
        """What it has used so far; None if that is not known."""


class SlotRuns:
    """What is in one process. `on_idle` is called when the last run has left."""

    def __init__(self, process: Process, link: Link, most: int, on_idle: Callable[[], None]) -> None:
        self._process = process
        self._link = link
        self._most = most
        self._on_idle = on_idle
        self._page = ControlPage.create()
        self._runs: dict[int, SlotRun] = {}
        self._revoked: set[int] = set()  # taken back; the process has not confirmed it
        # Whether the process goes on: its steps as seen last, when they changed, and since when it has work.
        self._steps = 0
        self._checked_at = 0.0
        self._stalled_sec = 0.0  # how long it has made no step although it had something to do
        self._starved_sec = 0.0  # how long it had no core meanwhile
        self._is_still = False  # at the last check it had something to do, and it has made no step since
        self._used_sec: float | None = None  # its processor time at the last check
        self._is_due = False
        self.count = 0  # of all runs that were ever here; the number of the last one

    @property
    def page_path(self) -> str:
        return self._page.path

    @property
    def is_idle(self) -> bool:
        return not self._runs and not self._revoked

    @property
    def has_short_runs(self) -> bool:
        return bool(self._revoked) or any(run.stretch_sec is not None for run in self._runs.values())

    @property
    def load_sec(self) -> float | None:
        """How long a further short run may have to wait here; None if none may join."""
        if self._revoked or len(self._runs) >= self._most:
            return None
        if self._stalled_sec >= TAKE_BACK_SEC and self._page.steps == self._steps:
            return None
        load_sec = 0.0
        for run in self._runs.values():
            if run.stretch_sec is None:
                return None
            load_sec += run.stretch_sec
        return load_sec

    def add(
        self,
        claimed: Claimed,
        recorder: Recorder,
        stretch_sec: float | None = None,
        on_long: Callable[[], None] = lambda: None,
    ) -> SlotRun:
        """`on_long` is called if the run is not as short as expected."""
        used = {run.lane for run in self._runs.values()}
        lane = next(lane for lane in range(LANES) if lane not in used and self._page.is_lane_free(lane))
        self.count += 1
        run = SlotRun(
            self,
            self._link,
            claimed,
            recorder,
            number=self.count,
            lane=lane,
            stretch_sec=stretch_sec,
            on_long=on_long,
        )
        self._page.set_state(lane, LaneState.UNBEGUN)
        self._runs[run.number] = run
        return run

    def close(self) -> None:
        self._page.close()

    def receive(self, message: m.Executed | m.Reported | m.Printed) -> None:
        run = self._runs.get(message.run)
        if run is not None:  # otherwise it was taken back
            run.receive(message)

    def receive_end(self, ended: m.EndedMessage) -> None:
        self._revoked.discard(ended.run)
        self._is_due, self._stalled_sec = False, 0.0  # it has read what was sent
        run = self._runs.pop(ended.run, None)
        if run is not None:
            run.receive(ended)
        if self.is_idle:
            self._on_idle()

    def add_lines(self, stream: str, lines: list[str]) -> bool:
        """Written past Python: they belong to the run whose code is executing. False: there is no run."""
        run = self._runs.get(self._page.executing) or next(iter(self._runs.values()), None)
        if run is not None:
            run.add_lines(stream, lines)
        return run is not None

    def break_off(self) -> None:
        """The process has died."""
        runs = list(self._runs.values())
        self._runs.clear()
        self._revoked.clear()
        begun = {run for run in runs if self._page.state(run.lane) is not LaneState.UNBEGUN}
        for run in runs:
            if len(runs) == 1 or run.number == self._page.executing or begun == {run}:
                run.leave(LeftSlot.DIED)
            elif run not in begun:
                run.leave(LeftSlot.UNBEGUN)
            else:
                run.leave(LeftSlot.DIED_BESIDE)
        self._on_idle()

    def note_sent(self) -> None:
        """The process has something to do."""
        self._note_steps()
        self._is_due = True

    @property
    def in_flight(self) -> int:
        return len(self._runs)

    @property
    def has_unbegun_runs(self) -> bool:
        return any(self._page.state(run.lane) is LaneState.UNBEGUN for run in self._runs.values())

    def check(self, now: float) -> None:
        """Regularly, while it has short runs: take back or move runs that the process does not come to."""
        since_check_sec, self._checked_at = now - self._checked_at, now
        if self._note_steps() or not (self._is_due or self._page.is_in_code):
            self._is_still = False
            return
        was_still, self._is_still = self._is_still, True
        is_starved = self._is_starved(since_check_sec, was_still)
        if not was_still:
            return  # what it had to do may have come just now
        passed_sec = min(since_check_sec, CHECK_SEC_MAX)
        if is_starved:
            self._starved_sec += passed_sec
            return
        self._stalled_sec += passed_sec
        if self._stalled_sec < TAKE_BACK_SEC:
            return
        if self._page.is_in_code and self._stalled_sec >= LONG_SEC:
            executing = self._runs.get(self._page.executing)
            if executing is not None:
                executing.note_long()
        if not self._runs and self._stalled_sec >= SILENT_SEC:
            self._process.terminate()
        elif len(self._runs) > self._page.is_in_code:
            is_released = self._release(is_stuck=self._is_stuck())
            if not is_released and self._stalled_sec >= SILENT_SEC:
                self._process.terminate()

    def abandon(self, run: SlotRun, requested_at: float | None = None) -> None:
        """The run must not go on. If its code is executing, the process is ended; other runs leave before."""
        if run.number not in self._runs:
            return
        if not self._page.try_lock():  # the process chooses which run goes on
            self._abandon_later(run, requested_at)
            return
        try:
            is_in_code = self._is_executing(run) or self._page.state(run.lane) is LaneState.IN_THREADS
            for one in list(self._runs.values()):
                if (one is run) != is_in_code:
                    self._let_go(one)
        finally:
            self._page.unlock()
        if is_in_code:
            self._process.terminate()

    def _abandon_later(self, run: SlotRun, requested_at: float | None) -> None:
        loop = asyncio.get_running_loop()
        since = loop.time() if requested_at is None else requested_at
        if loop.time() - since < SILENT_SEC:
            loop.call_later(TRY_AGAIN_SEC, self.abandon, run, since)
        else:
            self._process.terminate()

    def vacate(self) -> None:
        """Another run needs the process for itself: hand back those that wait here."""
        if not self._page.is_in_code:
            self._release(is_stuck=True)

    def _is_starved(self, since_check_sec: float, was_still: bool) -> bool:
        """Whether it waited for a core since the last check, at which it had something to do too."""
        before, self._used_sec = self._used_sec, self._process.processor_sec()
        if not was_still or before is None or self._used_sec is None:
            return False
        is_executing = self._used_sec - before >= STARVED_BELOW * since_check_sec
        return not (is_executing or self._starved_sec >= STARVED_SEC_MAX or self._process.is_blocked())

    def _is_stuck(self) -> bool:
        return self._stalled_sec >= MOVE_SEC or (
            self._stalled_sec >= MOVE_BLOCKED_SEC and self._process.is_blocked()
        )

    def _release(self, *, is_stuck: bool) -> bool:
        """Take back runs that have not begun; if it is stuck, all runs whose code is not executing.

        False: not now, because the process chooses one of them.
        """
        if not self._page.try_lock():
            return False
        try:
            for run in list(self._runs.values()):
                if not self._is_executing(run) and _may_leave(run, self._page.state(run.lane), is_stuck):
                    self._let_go(run)
        finally:
            self._page.unlock()
        return True

    def _let_go(self, run: SlotRun) -> None:
        """With the lock of the page."""
        is_begun = self._page.state(run.lane) is not LaneState.UNBEGUN
        self._page.revoke(run.lane, run.number)
        self._revoked.add(run.number)
        del self._runs[run.number]
        run.leave(LeftSlot.MOVED if is_begun else LeftSlot.UNBEGUN)
        self.note_sent()

    def _is_executing(self, run: SlotRun) -> bool:
        return self._page.is_in_code and self._page.executing == run.number

    def _note_steps(self) -> bool:
        """Whether the process has made a step since the last call."""
        steps = self._page.steps
        if steps == self._steps:
            return False
        self._steps, self._is_due = steps, False
        self._stalled_sec = self._starved_sec = 0.0
        self._is_still = False
        return True


def _may_leave(run: SlotRun, state: LaneState, is_stuck: bool) -> bool:
    match state:
        case LaneState.UNBEGUN:
            return True
        case LaneState.BEGUN:
            return is_stuck and run.can_continue_elsewhere
        case LaneState.IN_THREADS:
            return False
