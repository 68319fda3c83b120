"""Submit the items of a batch in portions, each run under an id that follows from the batch and the item.

So a request that is repeated after an interruption finds the runs that exist, and creates the others. After
each portion the record of the batch is read: when the batch was cancelled meanwhile, these runs are cancelled
too, because the cancel may not have seen them, and the rest is not submitted.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import Conflict, PyocoError, Unavailable
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import CancelAsked
from pyoco_server.operations.batches.cancel import cancel_all
from pyoco_server.operations.batches.records import change_batch, get_batch
from pyoco_server.operations.runs.submit import submit
from pyoco_server.store.batches import RunBatch
from pyoco_server.store.store import Store

PORTION = 256


class BatchItem(NamedTuple):
    """`wanted`: the run to submit, or why it is refused."""

    position: int
    wanted: RunSubmitted | PyocoError


class ItemOutcome(NamedTuple):
    """`error` with a `run_id`: the run may exist, because the broker did not answer."""

    position: int
    run_id: str | None = None
    error: PyocoError | None = None


def run_id_of(batch_id: str, index: int) -> str:
    return str(uuid.uuid5(uuid.UUID(batch_id), str(index)))


class BatchSubmission:
    """`outcomes` submits, and yields what became of each item. The sums are complete after that.

    `trouble`: why it was interrupted. The same request can be sent again.
    """

    def __init__(self, store: Store, batch: RunBatch, meta: CommitMeta | None = None) -> None:
        self._store = store
        self._meta = meta
        self._cancel: CancelAsked | None = batch.cancel
        self.batch = batch
        self.accepted = self.refused = 0
        self._without_run = bytearray((batch.total + 7) // 8)
        self.trouble: Unavailable | None = None

    async def outcomes(self, portions: Iterable[Sequence[BatchItem]]) -> AsyncIterator[list[ItemOutcome]]:
        for portion in portions:
            if self.trouble is None and self._cancel is None:
                found = await asyncio.gather(*map(self._submit, portion))
                await self._look_for_cancel([one.run_id for one in found if one.run_id is not None])
            else:
                found = await asyncio.gather(*map(self._left_out, portion))
                await asyncio.sleep(0)  # let other requests be served
            for one in found:
                if one.error is not None:
                    self._without_run[one.position // 8] |= 1 << one.position % 8
            self.accepted += sum(one.error is None for one in found)
            self.refused += sum(one.error is not None and one.error is not self.trouble for one in found)
            yield found
        if self.trouble is None:
            await self._close()

    async def _submit(self, item: BatchItem) -> ItemOutcome:
        if isinstance(item.wanted, PyocoError):
            return ItemOutcome(item.position, error=item.wanted)
        batch_id = self.batch.batch_id
        run_id = run_id_of(batch_id, item.position)
        wanted = replace(item.wanted, run_id=run_id, batch_id=batch_id)
        try:
            await submit(self._store, wanted, commit_id=_commit_id(run_id), meta=self._meta)
        except Unavailable as error:
            self.trouble = self.trouble or error
            return ItemOutcome(item.position, run_id, self.trouble)
        except PyocoError as error:
            return ItemOutcome(item.position, error=error)
        return ItemOutcome(item.position, run_id)

    async def _left_out(self, item: BatchItem) -> ItemOutcome:
        """Not submitted by this request. By an earlier one it may have been."""
        if isinstance(item.wanted, PyocoError):
            return ItemOutcome(item.position, error=item.wanted)
        if self.batch.is_repeated and self.trouble is None:
            run_id = run_id_of(self.batch.batch_id, item.position)
            try:
                stored = await self._store.runs.load_confirmed(run_id)
            except Unavailable as error:
                self.trouble = self.trouble or error
                return ItemOutcome(item.position, run_id, self.trouble)
            if stored is not None:
                return ItemOutcome(item.position, run_id)
        return ItemOutcome(item.position, error=self.trouble or _cut_off())

    async def _look_for_cancel(self, run_ids: Sequence[str]) -> None:
        try:
            self._cancel = (await get_batch(self._store, self.batch.batch_id)).cancel
            if self._cancel is not None:
                await cancel_all(self._store, run_ids, self._cancel)
        except Unavailable as error:
            self.trouble = error

    async def _close(self) -> None:
        """Record the end. Until then housekeeping expects new runs of a cancelled batch."""
        end = {
            "submitted_at": clock.now(),
            "accepted": self.accepted,
            "refused": self.refused,
            "without_run": bytes(self._without_run) if self.refused else b"",
        }

        def closed(batch: RunBatch) -> RunBatch:
            return replace(batch, **end) if batch.submitted_at is None else batch

        try:
            self.batch = await change_batch(self._store, self.batch.batch_id, closed)
        except Unavailable as error:
            self.trouble = error


def outcomes_of(batch: RunBatch, portion: Sequence[BatchItem]) -> list[ItemOutcome]:
    """What became of these items of a batch whose request was processed to its end."""
    return [_outcome_of(batch, item) for item in portion]


def _outcome_of(batch: RunBatch, item: BatchItem) -> ItemOutcome:
    """Not by what is valid now: instants pass, and limits change."""
    if batch.has_run(item.position):
        return ItemOutcome(item.position, run_id_of(batch.batch_id, item.position))
    if isinstance(item.wanted, PyocoError):
        return ItemOutcome(item.position, error=item.wanted)
    refused = Conflict("This item was refused when the batch was submitted. Send it in another batch.")
    return ItemOutcome(item.position, error=refused if batch.cancel is None else _cut_off())


def _cut_off() -> Conflict:
    return Conflict("The batch was cancelled before this item was submitted.")


def _commit_id(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:32]
