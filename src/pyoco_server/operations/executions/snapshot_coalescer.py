"""Writes snapshots after commits without delaying answers. Commits made meanwhile share the next snapshot.

The answer to a command depends on the commit alone. A reader folds newer commits on an old snapshot and
heals it. For a run that changes all the time a snapshot is written at intervals, and for its end at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from msgspec.structs import replace

from pyoco_server.errors import Unavailable
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import start_task, wait_for_event

log = logging.getLogger(__name__)

# With more runs in flight than this, a command waits for its snapshot, and so for the broker.
IN_FLIGHT_MAX = 2_048
REMEMBERED_MAX = 4_096
CLOSE_SEC = 2.0
# Between two snapshots of one run.
PAUSE_SEC = 0.05


class _Written(NamedTuple):
    """The last snapshot of a run that this gateway wrote: its revision, and the commit that it includes."""

    revision: int
    log_seq: int


class SnapshotCoalescer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: dict[str, StoredRun] = {}
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._hurry: dict[str, asyncio.Event] = {}
        self._written: dict[str, _Written] = {}

    async def project(self, stored: StoredRun) -> None:
        run_id = stored.run.run_id
        waiting = self._next.get(run_id)
        if waiting is not None and waiting.log_seq >= stored.log_seq:
            return  # of two concurrent commits, the later one came first
        self._next[run_id] = stored
        if run_id in self._in_flight:
            if stored.run.is_terminal:
                self._hurry[run_id].set()
            return  # the running task writes this one next
        self._hurry[run_id] = asyncio.Event()
        self._in_flight[run_id] = writing = start_task(self._write(run_id), "snapshot after a command")
        if len(self._in_flight) > IN_FLIGHT_MAX:
            await asyncio.shield(writing)

    async def close(self) -> None:
        for hurry in self._hurry.values():
            hurry.set()
        if self._in_flight:
            await asyncio.wait(self._in_flight.values(), timeout=CLOSE_SEC)

    async def _write(self, run_id: str) -> None:
        try:
            while (stored := self._next.pop(run_id, None)) is not None:
                await self._write_one(stored)
                await self._pause(run_id)
        except Unavailable as error:
            log.warning("committed, but not projected yet", extra={"run_id": run_id, "error": error.message})
        finally:
            self._next.pop(run_id, None)
            del self._in_flight[run_id], self._hurry[run_id]

    async def _write_one(self, stored: StoredRun) -> None:
        """Over the last snapshot of this gateway, if there is one: its revision is known here only."""
        run_id = stored.run.run_id
        ours = self._written.pop(run_id, None)
        if ours is not None and ours.log_seq >= stored.log_seq:
            self._written[run_id] = ours
            return
        over = stored if ours is None else replace(stored, revision=ours.revision)
        written = await self._store.runs.snapshots.overwrite(over)
        if written is None:
            # Another process wrote a snapshot. `project` compares it; its revision is not known here.
            await self._store.runs.snapshots.project(stored)
            return
        put_bounded(self._written, run_id, _Written(written.revision, stored.log_seq), REMEMBERED_MAX)

    async def _pause(self, run_id: str) -> None:
        """Wait until the next snapshot is due; not before the last one of a run, and not during `close`."""
        waiting = self._next.get(run_id)
        if waiting is not None and waiting.run.is_terminal:
            return
        await wait_for_event(self._hurry[run_id], PAUSE_SEC)
