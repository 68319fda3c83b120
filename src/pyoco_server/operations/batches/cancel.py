"""Cancel a batch: what of it was submitted, and what its request is still submitting.

The cancel is accepted when it is in the record of the batch. A note, written before, makes housekeeping
cancel its runs until none is left, whatever process ends meanwhile. The request that submits the batch reads
the record after each portion, and cancels what it has just created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.run import CancelAsked
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.batches.records import change_batch, get_batch
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.batches import RunBatch
from pyoco_server.store.store import Store
from pyoco_server.supervision import start_task

SIDE_BY_SIDE = 16
# A request waits this long until its runs are cancelled. Large batches take longer.
CANCEL_WAIT_SEC = 0.5
RUNS_AT_ONCE = 500
# Runs without a cancel request. RUNNING includes those that wait.
_GOES_ON = f"{RunStatus.PENDING},{RunStatus.RUNNING}"

_under_way: set[asyncio.Task[int]] = set()


async def cancel_batch(
    store: Store, batch_id: str, *, by: str | None, reason: str | None, tenant_id: str | None
) -> RunBatch:
    """Accepted when this returns. A second cancel changes nothing. `cancel_its_runs` follows."""
    await get_batch(store, batch_id, tenant_id=tenant_id)
    await store.cancelled_batches.note(batch_id)
    asked = CancelAsked(at=clock.now(), by=by, reason=reason)
    cancelled = await change_batch(
        store, batch_id, lambda batch: batch if batch.cancel is not None else replace(batch, cancel=asked)
    )
    # Again: if this process was paused, housekeeping has removed the note of a batch without a cancel.
    await store.cancelled_batches.note(batch_id)
    return cancelled


async def cancel_its_runs_soon(store: Store, read_model: ReadModel, batch: RunBatch) -> None:
    """Begin now instead of with the next round of housekeeping. Ends early for large batches."""
    cancelling = start_task(cancel_its_runs(store, read_model, batch), "cancelling the runs of a batch")
    _under_way.add(cancelling)
    cancelling.add_done_callback(_under_way.discard)
    await asyncio.wait([cancelling], timeout=CANCEL_WAIT_SEC)


async def cancel_its_runs(store: Store, read_model: ReadModel, batch: RunBatch) -> int:
    """Cancel every run of this cancelled batch that goes on. Returns how many.

    A run that is listed again could not be cancelled, because its log is gone. It is tried once.
    """
    assert batch.cancel is not None
    tried: set[str] = set()
    wanted = Filter(batch=batch.batch_id, status=_GOES_ON)
    while True:
        await read_model.catch_up()
        page = read_model.runs.page(wanted, RUNS_AT_ONCE + len(tried))
        found = [run.run_id for run in page if run.run_id not in tried][:RUNS_AT_ONCE]
        if not found:
            return len(tried)
        await cancel_all(store, found, batch.cancel)
        tried.update(found)


async def cancel_all(store: Store, run_ids: Sequence[str], asked: CancelAsked) -> None:
    waiting = iter(run_ids)

    async def cancel_some() -> None:
        for run_id in waiting:
            try:
                await cancel_run(store, run_id, by=asked.by, reason=asked.reason)
            except NotFound:
                continue  # it has been erased

    await asyncio.gather(*(cancel_some() for _ in range(min(SIDE_BY_SIDE, len(run_ids)))))
