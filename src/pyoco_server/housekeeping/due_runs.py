"""Runs in which time alone changes something: timeouts, backoffs, waits, expiry. Each has its instant.

The read model has an index of these instants. A timer is set to the earliest one, and set again when a commit
brings an earlier one. What happens at the instant is decided by the core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.housekeeping.isolation import Isolation, sum_of_all
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run, due_at
from pyoco_server.operations.runs.pass_time import pass_time
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store

# The rest is processed right after.
RUNS_AT_ONCE = 500
SIDE_BY_SIDE = 16
# The shortest pause between two rounds, so that other tasks of the process can run.
WAKE_SEC_MIN = 0.02
# A clock that is set back repeats an instant, so a run that was not due is tried again after this long.
SKIP_SEC = 30.0


class _Skipped(NamedTuple):
    updated_at: float
    until: float


class DueRuns:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._isolation = Isolation("due runs")
        self._on_due: Callable[[], None] = _noop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._lock = asyncio.Lock()
        # Due by the index, but not by the core: skipped until the run changes, or for a while.
        self._skipped: dict[str, _Skipped] = {}
        read_model.notifications.on_new_commit(self._on_commit)

    async def look(self) -> int:
        """Apply PassTime to every run that is due, and set the timer to the next instant."""
        async with self._lock:
            now = clock.now()
            found = self._read_model.housekeeping.due(until=now, limit=RUNS_AT_ONCE)
            known = {run.run_id for run in found}
            self._skipped = {run_id: skipped for run_id, skipped in self._skipped.items() if run_id in known}
            due = iter([run for run in found if not self._is_skipped(run)])
            changed = await sum_of_all(
                self._isolation.each_run(due, self._pass_time) for _ in range(SIDE_BY_SIDE)
            )
            has_more = len(found) == RUNS_AT_ONCE and changed
            upcoming = now if has_more else self._read_model.housekeeping.next_due(after=now)
            self._set(self._earlier(upcoming))
            return changed

    def on_due(self, act: Callable[[], None]) -> None:
        """`act` is called when the instant of a run has come."""
        self._on_due = act

    def wake(self) -> None:
        self._timer_at = None
        self._on_due()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _pass_time(self, run: Run) -> bool:
        applied = await pass_time(self._store, run.run_id, clock.now())
        if not applied.events:
            until = asyncio.get_running_loop().time() + SKIP_SEC
            self._skipped[run.run_id] = _Skipped(run.updated_at, until)
        return bool(applied.events)

    def _is_skipped(self, run: Run) -> bool:
        skipped = self._skipped.get(run.run_id)
        if skipped is None or skipped.updated_at != run.updated_at:
            return False
        return asyncio.get_running_loop().time() < skipped.until

    def _on_commit(self, _before: Run | None, after: Run, _events: Sequence[Event]) -> None:
        earliest = due_at(after)
        if earliest is not None and (self._timer_at is None or earliest < self._timer_at):
            self._set(earliest)

    def _earlier(self, upcoming: float | None) -> float | None:
        """A commit may have set the timer during the round, for a run that was due already."""
        instants = [at for at in (upcoming, self._timer_at) if at is not None]
        return min(instants, default=None)

    def _set(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, at
        if at is not None:
            delay_sec = max(WAKE_SEC_MIN, at - clock.now())
            self._timer = asyncio.get_running_loop().call_later(delay_sec, self.wake)


def _noop() -> None:
    return
