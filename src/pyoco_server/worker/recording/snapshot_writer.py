"""Writes the snapshot of a run: always the latest state, one write in flight, not one per commit.

Readers fold what a snapshot lacks, so it may be a moment late. The end of a run waits for it. A short run
writes no other one, also when many of them take their time on a busy machine.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging

from msgspec.structs import replace

from pyoco_server.errors import Unavailable
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, contain, start_task

log = logging.getLogger(__name__)

LATE_SEC = 0.25
TRY_AGAIN = Backoff(first_sec=0.05, longest_sec=5.0)
# After this many defects it is not written any more; the next reader of the run writes it.
DEFECTS_MAX = 3
LOOP = "snapshot of a run"


class SnapshotWriter:
    def __init__(self, store: Store, stored: StoredRun) -> None:
        self._store = store
        self._context = contextvars.copy_context()  # of the attempt: a timer may have another one
        self._latest = stored
        self._revision = stored.revision
        self._shown = -1  # commits in the snapshot that was written last
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_writing = False
        self._is_over = False
        self._failures = 0  # in a row
        self._defects = 0

    def follow(self, stored: StoredRun) -> None:
        self._latest = stored
        if self._timer is None and not self._is_busy and not self._is_over:
            self._timer = asyncio.get_running_loop().call_later(LATE_SEC, self._write_soon)

    async def flush(self) -> None:
        """Wait until the snapshot shows the last commit; tries for as long as the broker is away."""
        self._stop_timer()
        while self._shown < self._latest.commits and self._defects < DEFECTS_MAX:
            if self._writing is not None:
                await self._writing
            else:
                await self._write()

    def stop(self) -> None:
        """The attempt is over, or another worker holds the run: a scheduled write is dropped."""
        self._is_over = True
        self._stop_timer()

    async def send_heartbeat(self, at: float) -> bool:
        """Renew the heartbeat, unless the snapshot is about to be written anyway.

        True: the snapshot shows a commit of another writer.
        """
        if self._is_busy or self._shown != self._latest.commits:
            return False
        now = replace(self._latest, revision=self._revision)
        renewed = await self._store.runs.snapshots.beat(now, at)
        self._revision = renewed.stored.revision
        return renewed.is_behind

    @property
    def _is_busy(self) -> bool:
        """A write is in flight: in its own task, or in `flush`."""
        return self._is_writing or self._writing is not None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_soon(self) -> None:
        self._stop_timer()
        if not self._is_busy:
            self._writing = start_task(self._write(), LOOP, context=self._context)

    async def _write(self) -> None:
        self._is_writing = True
        target = replace(self._latest, revision=self._revision)
        try:
            # A defect loses nothing of the run: readers fold its log.
            with contain(LOOP, "a snapshot cannot be written", run_id=target.run.run_id) as contained:
                await self._project(target)
            if contained.error is not None:
                self._defects += 1
                await self._wait_after(contained.error)
        finally:
            self._writing, self._is_writing = None, False
        if self._shown < self._latest.commits and self._defects < DEFECTS_MAX:
            self.follow(self._latest)

    async def _project(self, target: StoredRun) -> None:
        try:
            self._revision = (await self._store.runs.snapshots.project(target)).revision
        except Unavailable as error:
            await self._wait_after(error)
        else:
            self._shown = target.commits
            self._note_success()

    async def _wait_after(self, error: Exception) -> None:
        """Warns at the first failure only."""
        self._failures += 1
        fields = {"run_id": self._latest.run.run_id, "error": str(error), "failures": self._failures}
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        log.log(level, "snapshot not written yet", exc_info=error, extra=fields)
        await asyncio.sleep(TRY_AGAIN.after(self._failures))

    def _note_success(self) -> None:
        if self._failures:
            fields = {"run_id": self._latest.run.run_id, "failures": self._failures}
            log.info("snapshot written after failures", extra=fields)
        self._failures = self._defects = 0
