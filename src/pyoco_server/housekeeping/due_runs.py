"""Runs in which time alone changes something: timeouts, backoffs, waits. Each is seen to at its instant.

The read model has an index of these instants, so nothing is searched; a timer stands at the earliest of them,
and the feed sets it forward when a commit brings an earlier one. What happens is decided by the core.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from pyoco_server.lifecycle.commands import PassTime
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.apply import apply
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

# What is left is seen to right after.
RUNS_AT_ONCE = 500
SIDE_BY_SIDE = 16
# However much is due: between two looks others get their turn.
WAKE_SEC_MIN = 0.02
_BY_TIME = CommitMeta(actor=Actor(ActorKind.SYSTEM, "housekeeping"))


class DueRuns:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._rings = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at: float | None = None
        self._looking = asyncio.Lock()
        # Due by the index, but not to the core: left alone until something changes in them.
        self._in_vain: dict[str, float] = {}
        read_model.on_news(self._on_news)

    async def look(self) -> int:
        """Pass time in every run that is due, and set the timer to the next one."""
        async with self._looking:
            now = time.time()
            found = self._read_model.due(until=now, limit=RUNS_AT_ONCE)
            due = [run for run in found if self._in_vain.get(run.run_id) != run.updated_at]
            known = {run.run_id for run in found}
            self._in_vain = {run_id: at for run_id, at in self._in_vain.items() if run_id in known}
            moved = 0
            for first in range(0, len(due), SIDE_BY_SIDE):
                moved += sum(await asyncio.gather(*map(self._pass, due[first : first + SIDE_BY_SIDE])))
            self._set(now if len(found) == RUNS_AT_ONCE and moved else self._read_model.next_due(after=now))
            return moved

    async def rung(self) -> None:
        """Wait until the timer goes off, or somebody wakes us."""
        await self._rings.wait()
        self._rings.clear()

    def wake(self) -> None:
        self._rings_at = None
        self._rings.set()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.wake()

    async def _pass(self, run: Run) -> bool:
        applied = await apply(self._store, run.run_id, PassTime(), at=time.time(), meta=_BY_TIME)
        if not applied.events:
            self._in_vain[run.run_id] = run.updated_at
        return bool(applied.events)

    def _on_news(self, _before: Run | None, after: Run, _events: Sequence[Event]) -> None:
        if after.due:
            earliest = min(after.due.values())
            if self._rings_at is None or earliest < self._rings_at:
                self._set(earliest)

    def _set(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, at
        if at is not None:
            delay_sec = max(WAKE_SEC_MIN, at - time.time())
            self._timer = asyncio.get_running_loop().call_later(delay_sec, self.wake)
