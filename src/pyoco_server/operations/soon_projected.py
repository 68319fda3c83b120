"""Snapshots written right after a commit, but not waited for: what is committed meanwhile joins the next one.

The answer to a command stands on the commit alone. A snapshot that is behind is folded forward by whoever
reads it, and healed, as ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from msgspec.structs import replace

from pyoco_server.errors import Unavailable
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# Beyond so many runs at once whoever commits waits for its snapshot, and so for the broker.
UNDER_WAY_MAX = 256
REMEMBERED_MAX = 4_096
CLOSE_SEC = 2.0


class SoonProjected:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: dict[str, StoredRun] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        # Of the snapshots written last: commands know the one they were decided on, which is older.
        self._revisions: OrderedDict[str, int] = OrderedDict()

    async def project(self, stored: StoredRun) -> None:
        run_id = stored.run.run_id
        self._next[run_id] = stored
        if run_id in self._under_way:
            return  # whoever is at it takes this one next
        writing = asyncio.get_running_loop().create_task(self._write(run_id))
        self._under_way[run_id] = writing
        if len(self._under_way) > UNDER_WAY_MAX:
            await asyncio.shield(writing)

    async def close(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=CLOSE_SEC)

    async def _write(self, run_id: str) -> None:
        try:
            while (stored := self._next.pop(run_id, None)) is not None:
                revision = max(stored.revision, self._revisions.get(run_id, 0))
                written = await self._store.runs.project(replace(stored, revision=revision))
                self._remember(run_id, written.revision)
        except Unavailable as error:
            log.warning("committed, but not projected yet", extra={"run_id": run_id, "error": error.message})
        finally:
            self._next.pop(run_id, None)
            del self._under_way[run_id]

    def _remember(self, run_id: str, revision: int) -> None:
        self._revisions[run_id] = revision
        self._revisions.move_to_end(run_id)
        if len(self._revisions) > REMEMBERED_MAX:
            self._revisions.popitem(last=False)
