"""Snapshots written right after a commit, but not waited for: what is committed meanwhile joins the next one.

The answer to a command depends on the commit alone. A reader folds a snapshot that is behind forward and
heals it. For a run that changes all the time a snapshot is written now and then, and for its end at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import NamedTuple

from msgspec.structs import replace

from pyoco_server.errors import Unavailable
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import start_task, wait_for_event

log = logging.getLogger(__name__)

# Beyond so many runs at once a caller that commits waits for its snapshot, and so for the broker.
UNDER_WAY_MAX = 2_048
REMEMBERED_MAX = 4_096
CLOSE_SEC = 2.0
# Of one run, from one snapshot to the next.
PAUSE_SEC = 0.05


class _Written(NamedTuple):
    """What we wrote last of a run: with which revision, and how far it was folded."""

    revision: int
    log_seq: int


class SnapshotCoalescer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: dict[str, StoredRun] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._hurry: dict[str, asyncio.Event] = {}
        self._written: OrderedDict[str, _Written] = OrderedDict()

    async def project(self, stored: StoredRun) -> None:
        run_id = stored.run.run_id
        waiting = self._next.get(run_id)
        if waiting is not None and waiting.log_seq >= stored.log_seq:
            return  # of two who committed at once, the later one came first
        self._next[run_id] = stored
        if run_id in self._under_way:
            if stored.run.is_terminal:
                self._hurry[run_id].set()
            return  # the running task writes this one next
        self._hurry[run_id] = asyncio.Event()
        self._under_way[run_id] = writing = start_task(self._write(run_id), "snapshot after a command")
        if len(self._under_way) > UNDER_WAY_MAX:
            await asyncio.shield(writing)

    async def close(self) -> None:
        for hurry in self._hurry.values():
            hurry.set()
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=CLOSE_SEC)

    async def _write(self, run_id: str) -> None:
        try:
            while (stored := self._next.pop(run_id, None)) is not None:
                await self._write_one(stored)
                await self._pause(run_id)
        except Unavailable as error:
            log.warning("committed, but not projected yet", extra={"run_id": run_id, "error": error.message})
        finally:
            self._next.pop(run_id, None)
            del self._under_way[run_id], self._hurry[run_id]

    async def _write_one(self, stored: StoredRun) -> None:
        """Over our own last one, whose revision no command knows; else as everybody does."""
        run_id = stored.run.run_id
        ours = self._written.pop(run_id, None)
        if ours is not None and ours.log_seq >= stored.log_seq:
            self._written[run_id] = ours
            return
        over = stored if ours is None else replace(stored, revision=ours.revision)
        written = await self._store.runs.snapshots.overwrite(over)
        if written is None:
            # Another process wrote. Only `project` finds out what; we cannot continue from its revision.
            await self._store.runs.snapshots.project(stored)
            return
        self._written[run_id] = _Written(written.revision, stored.log_seq)
        if len(self._written) > REMEMBERED_MAX:
            self._written.popitem(last=False)

    async def _pause(self, run_id: str) -> None:
        """Till the next one is due; not before one that is the last, and not while we are being closed."""
        waiting = self._next.get(run_id)
        if waiting is not None and waiting.run.is_terminal:
            return
        await wait_for_event(self._hurry[run_id], PAUSE_SEC)
