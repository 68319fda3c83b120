"""The snapshot of a run follows its log: always the latest state, one write in flight, not one per commit.

Readers fold what a snapshot lacks, so that it may be a moment late; the end of a run waits for it.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec.structs import replace

from pyoco_server.errors import Unavailable
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

LATE_SEC = 0.05
TRY_AGAIN_SEC = 0.05


class SnapshotWriter:
    def __init__(self, store: Store, stored: StoredRun) -> None:
        self._store = store
        self._latest = stored
        self._revision = stored.revision
        self._shown = -1  # commits in the snapshot as we have written it
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_writing = False
        self._is_over = False

    def follow(self, stored: StoredRun) -> None:
        self._latest = stored
        if self._timer is None and not self._is_busy and not self._is_over:
            self._timer = asyncio.get_running_loop().call_later(LATE_SEC, self._write_soon)

    async def written(self) -> None:
        """Wait until the snapshot shows the last commit; tries for as long as the broker is away."""
        self._stop_timer()
        while self._shown < self._latest.commits:
            if self._writing is not None:
                await self._writing
            else:
                await self._write()

    def stop(self) -> None:
        """The run is over for us, or somebody else's: a write that is only due is theirs."""
        self._is_over = True
        self._stop_timer()

    async def beat(self, at: float) -> None:
        """Renew the heartbeat, unless the snapshot is about to be written anyway."""
        if not self._is_busy and self._shown == self._latest.commits:
            now = replace(self._latest, revision=self._revision)
            self._revision = (await self._store.runs.beat(now, at)).revision

    @property
    def _is_busy(self) -> bool:
        """In a task of its own, or for whoever waits for it."""
        return self._is_writing or self._writing is not None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_soon(self) -> None:
        self._stop_timer()
        if not self._is_busy:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        self._is_writing = True
        target = replace(self._latest, revision=self._revision)
        try:
            self._revision = (await self._store.runs.project(target)).revision
            self._shown = target.commits
        except Unavailable as error:
            extra = {"run_id": target.run.run_id, "error": error.message}
            log.warning("snapshot not written yet", extra=extra)
            await asyncio.sleep(TRY_AGAIN_SEC)
        finally:
            self._writing, self._is_writing = None, False
        if self._shown < self._latest.commits:
            self.follow(self._latest)
