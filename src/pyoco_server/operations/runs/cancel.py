"""Cancel a run. The request is always accepted; a run that has ended does not change."""

from __future__ import annotations

from pyoco_server.lifecycle.commands import CancelRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import CancelRequested, RunCancelled
from pyoco_server.operations.idempotency.apply_once import apply_once
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.logs.notices import CANCELLED_UNCLAIMED, note_soon
from pyoco_server.operations.runs.apply import Applied, Reading, apply, fold_some
from pyoco_server.operations.runs.query import visible
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store


async def cancel_run(
    store: Store,
    run_id: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    tenant_id: str | None = None,
    reservation: Reservation | None = None,
) -> Applied:
    """`reservation`: of a request with an idempotency key. A repetition gets the first outcome."""
    stored = visible(await store.runs.load(run_id, at_leader=True), run_id, tenant_id)
    asked = CancelRun(by=by, reason=reason)
    if reservation is not None:
        applied = await apply_once(store, reservation, run_id, asked)
    else:
        applied = await apply(store, run_id, asked, reading=Reading(held=stored))
    if applied.refused is not None and applied.refused.reason in (Reason.UNKNOWN, Reason.GONE):
        visible(None, run_id, tenant_id)
    if any(isinstance(event, RunCancelled) for event in applied.events):
        # The run ended in this commit, so no worker writes this line. The cancel is valid without it.
        await note_soon(store, run_id, CANCELLED_UNCLAIMED)
    return applied


def as_requested(applied: Applied) -> StoredRun:
    """The run right after the request: CANCELLING, also if it ended in the same commit."""
    assert applied.after is not None
    asked = tuple(event for event in applied.events if isinstance(event, CancelRequested))
    return fold_some(applied.before, asked) if asked and applied.before else applied.after
