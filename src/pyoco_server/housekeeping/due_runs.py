"""Runs in which time alone changes something: timeouts, backoffs, waits. Each is seen to at its instant.

The read model has an index of these instants, so nothing is searched; a timer stands at the earliest of them,
and the feed sets it forward when a commit brings an earlier one. What happens is decided by the core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.lifecycle.commands import PassTime
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.apply import Attribution, apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store

# What is left is seen to right after.
RUNS_AT_ONCE = 500
SIDE_BY_SIDE = 16
# However much is due: between two looks others get their turn.
WAKE_SEC_MIN = 0.02
# A clock that was set back makes an instant come twice: what was not due then is looked at again.
IN_VAIN_SEC = 30.0
_BY_TIME = CommitMeta(actor=Actor(ActorKind.SYSTEM, "housekeeping"))


class _InVain(NamedTuple):
    updated_at: float
    look_again_at: float


class DueRuns:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._isolation = Isolation("due runs")
        self._on_due: Callable[[], None] = _noop
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at: float | None = None
        self._looking = asyncio.Lock()
        # Due by the index, but not to the core: left alone until something changes in them, or for a while.
        self._in_vain: dict[str, _InVain] = {}
        read_model.notifications.on_new_commit(self._on_news)

    async def look(self) -> int:
        """Pass time in every run that is due, and set the timer to the next one."""
        async with self._looking:
            now = clock.now()
            found = self._read_model.housekeeping.due(until=now, limit=RUNS_AT_ONCE)
            known = {run.run_id for run in found}
            self._in_vain = {run_id: at for run_id, at in self._in_vain.items() if run_id in known}
            due = iter([run for run in found if not self._is_in_vain(run)])
            some = (self._isolation.each(due, self._pass, name=_run_id) for _ in range(SIDE_BY_SIDE))
            moved = _sum(await asyncio.gather(*some, return_exceptions=True))
            has_more = len(found) == RUNS_AT_ONCE and moved
            upcoming = now if has_more else self._read_model.housekeeping.next_due(after=now)
            self._set(self._earlier(upcoming))
            return moved

    def on_due(self, act: Callable[[], None]) -> None:
        """Call this when the instant of a run has come."""
        self._on_due = act

    def wake(self) -> None:
        self._rings_at = None
        self._on_due()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _pass(self, run: Run) -> bool:
        applied = await apply(
            self._store, run.run_id, PassTime(), at=clock.now(), attribution=Attribution(meta=_BY_TIME)
        )
        if not applied.events:
            look_again_at = asyncio.get_running_loop().time() + IN_VAIN_SEC
            self._in_vain[run.run_id] = _InVain(run.updated_at, look_again_at)
        return bool(applied.events)

    def _is_in_vain(self, run: Run) -> bool:
        in_vain = self._in_vain.get(run.run_id)
        if in_vain is None or in_vain.updated_at != run.updated_at:
            return False
        return asyncio.get_running_loop().time() < in_vain.look_again_at

    def _on_news(self, _before: Run | None, after: Run, _events: Sequence[Event]) -> None:
        if after.due:
            earliest = min(after.due.values())
            if self._rings_at is None or earliest < self._rings_at:
                self._set(earliest)

    def _earlier(self, upcoming: float | None) -> float | None:
        """The timer may have been set while we looked, for a run that was due when it was heard of."""
        instants = [at for at in (upcoming, self._rings_at) if at is not None]
        return min(instants, default=None)

    def _set(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, at
        if at is not None:
            delay_sec = max(WAKE_SEC_MIN, at - clock.now())
            self._timer = asyncio.get_running_loop().call_later(delay_sec, self.wake)


def _sum(results: Sequence[int | BaseException]) -> int:
    """All have come to their end; what one of them raised is raised now."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return sum(result for result in results if isinstance(result, int))


def _run_id(run: Run) -> str:
    return run.run_id


def _noop() -> None:
    return
