"""Cancels the runs of cancelled batches, until no request submits the batch any more and none is left.

A note names the batch. It is written before the cancel is accepted.
"""

from __future__ import annotations

import logging

from pyoco_server.clock import elapsed
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.operations.batches.cancel import cancel_its_runs
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.run_notes import RunNote
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

BATCHES_AT_ONCE = 100
LOOK_EVERY_SEC = 5.0
# The request that wrote the note is about to write the cancel, or has ended before it did.
NOT_CANCELLED_SEC = 600.0
# A request that submits a batch is interrupted, or has read the cancel, after this long. Of a batch whose
# request was repeated, one may still be submitting when another has recorded the end.
INTERRUPTED_SEC = 3600.0


class CancelledBatches:
    def __init__(self, store: Store, read_model: ReadModel) -> None:
        self._store = store
        self._read_model = read_model
        self._isolation = Isolation("cancelled batches")
        self._look_at = float("-inf")
        self._after = 0  # the revision of the note that the last look ended with

    async def look(self) -> int:
        """Returns of how many batches runs were cancelled."""
        if elapsed() < self._look_at:
            return 0
        # Some notes stay for an hour, so each look goes on where the last one ended.
        noted = await self._store.cancelled_batches.oldest(BATCHES_AT_ONCE, self._after)
        self._after = noted[-1].revision if len(noted) == BATCHES_AT_ONCE else 0
        cancelled = await self._isolation.each(noted, self._process, key=lambda one: one.run_id)
        self._look_at = elapsed() + LOOK_EVERY_SEC
        return cancelled

    async def _process(self, noted: RunNote[str]) -> bool:
        stored = await self._store.batches.get(noted.run_id)
        if stored is None:
            await self._store.cancelled_batches.remove(noted.run_id, noted.revision)
            return False
        if stored.batch.cancel is None:
            if noted.age_sec >= NOT_CANCELLED_SEC:
                await self._store.cancelled_batches.remove(noted.run_id, noted.revision)
            return False
        cancelled = await cancel_its_runs(self._store, self._read_model, stored.batch)
        if cancelled:
            fields = {"batch_id": noted.run_id, "runs": cancelled}
            log.info("runs of a cancelled batch were cancelled", extra=fields)
        is_submitted = stored.batch.submitted_at is not None and not stored.batch.is_repeated
        if is_submitted or noted.age_sec >= INTERRUPTED_SEC:
            await self._store.cancelled_batches.remove(noted.run_id, noted.revision)
        return cancelled > 0
