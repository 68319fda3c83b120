"""The record of a batch: begin it, change it by compare-and-set, show it to its tenant only."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.store.batches import RunBatch
from pyoco_server.store.store import Store

CHANGE_TRIES_MAX = 16


async def begin(store: Store, batch: RunBatch) -> RunBatch:
    """Store the record; of a repeated request the record that exists, with a mark."""
    try:
        return (await store.batches.put(batch, revision=0)).batch
    except WrongSequence:
        return await change_batch(
            store, batch.batch_id, lambda one: one if one.is_repeated else replace(one, is_repeated=True)
        )


async def get_batch(store: Store, batch_id: str, *, tenant_id: str | None = None) -> RunBatch:
    """NotFound also for a batch of another tenant."""
    stored = await store.batches.get(batch_id)
    if stored is None or (tenant_id is not None and stored.batch.tenant_id != tenant_id):
        raise NotFound("There is no such batch. Check the id, or list batches with GET /batches.")
    return stored.batch


async def list_batches(store: Store, limit: int, *, tenant_id: str | None = None) -> list[RunBatch]:
    """The latest first."""
    found = await store.batches.all()
    return [one for one in found if tenant_id is None or one.tenant_id == tenant_id][:limit]


async def change_batch(store: Store, batch_id: str, changed: Callable[[RunBatch], RunBatch]) -> RunBatch:
    """`changed` may return what it was given: then nothing is written."""
    for _ in range(CHANGE_TRIES_MAX):
        stored = await store.batches.get(batch_id)
        if stored is None:
            raise NotFound("The record of the batch has expired.")
        wanted = changed(stored.batch)
        if wanted is stored.batch:
            return wanted
        try:
            return (await store.batches.put(wanted, revision=stored.revision)).batch
        except WrongSequence:
            continue
    raise _changes_too_fast(batch_id)


def _changes_too_fast(batch_id: str) -> Unavailable:
    return Unavailable(f"The record of batch {batch_id} changes too fast. Try again.")
