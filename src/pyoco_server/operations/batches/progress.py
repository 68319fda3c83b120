"""How far the runs of a batch are: from the list of runs, and as a stream of changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TERMINAL
from pyoco_server.operations.batches.records import get_batch
from pyoco_server.operations.live.notify import Changes, Notify, Throttle
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.batches import RunBatch
from pyoco_server.store.store import Store

# Each time, the runs of the batch are counted: a step of an index for each of them.
NOTIFY_INTERVAL_SEC = 0.25
# Any gateway may be submitting the batch, or cancel it.
READ_RECORD_EVERY_SEC = 1.0
_ENDED = frozenset(status.value for status in TERMINAL)


def is_over(batch: RunBatch, counts: Mapping[str, int]) -> bool:
    """All its runs have ended, and none can follow."""
    can_grow = batch.submitted_at is None and batch.cancel is None
    return not can_grow and all(status in _ENDED for status in counts)


class BatchChanges(Changes["BatchReader"]):
    def __init__(self, read_model: ReadModel) -> None:
        super().__init__()
        self._read_model = read_model
        read_model.notifications.on_new_commit(self._on_commit)

    def subscribe(self, batch: RunBatch) -> BatchReader:
        return self._add(BatchReader(self._read_model, batch))

    def _on_commit(self, before: Run | None, after: Run, _events: Sequence[Event]) -> None:
        if after.batch_id is None or (before is not None and before.status is after.status):
            return
        for reader in self._each():
            if reader.batch.batch_id == after.batch_id:
                reader.wake()


class BatchReader:
    """The number of runs by status, at once and after changes."""

    def __init__(self, read_model: ReadModel, batch: RunBatch) -> None:
        self._read_model = read_model
        self._throttle = Throttle(NOTIFY_INTERVAL_SEC)
        self._has_changed = True
        self.batch = batch
        self.is_over = False

    def attach(self, notify: Notify) -> None:
        self._throttle.notify = notify

    def close(self) -> None:
        self.is_over = True
        self._throttle.close()

    def wake(self) -> None:
        self._has_changed = True
        self._throttle.wake()

    async def keep_current(self, store: Store) -> None:
        """Read the record again until nothing in it changes any more."""
        while not self.is_over and (self.batch.submitted_at is None or self.batch.cancel is None):
            await asyncio.sleep(READ_RECORD_EVERY_SEC)
            with contextlib.suppress(Unavailable):
                try:
                    batch = await get_batch(store, self.batch.batch_id)
                except NotFound:
                    return  # it has expired
                if batch != self.batch:
                    await self._read_model.catch_up()  # with the runs that were submitted until then
                    self.batch = batch
                    self.wake()

    def take(self) -> dict[str, int] | None:
        if not (self._has_changed and self._throttle.is_open):
            return None
        self._has_changed = False
        self._throttle.mark()
        counts = self._read_model.runs.counts_of_batch(self.batch.batch_id)
        self.is_over = is_over(self.batch, counts)
        return counts
