"""Erase a run that is over: from the log, the snapshots, what it printed and its large results. For good.

What is left is the mark of the erasure in the log, which vanishes by itself (`ERASED_MARK_TTL`).
"""

from __future__ import annotations

import logging

from pyoco_server.errors import Conflict, Unavailable
from pyoco_server.lifecycle.commands import EraseRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.operations.runs.apply import Reading, apply
from pyoco_server.operations.runs.leftovers import clear
from pyoco_server.operations.runs.query import visible
from pyoco_server.store.runs.results import earlier_in
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)


class StillLive(Conflict):
    """A run that is not over is cancelled first."""


async def erase_run(store: Store, run_id: str, *, by: str | None, tenant_id: str | None) -> None:
    """NotFound for what is not there (any more), StillLive for a run that is not over.

    The commit is what erases it; what it leaves elsewhere is cleared away after. It was noted before, so that
    housekeeping does this again: after a failure in between, and for what is written late.
    """
    stored = visible(await store.runs.load_confirmed(run_id, whole=True), run_id, tenant_id)
    if not stored.run.is_terminal:
        raise StillLive(f"Run {run_id} is not over. Cancel it first, then erase it.")
    earlier = earlier_in(stored.run)
    await store.leftovers.note(run_id, tuple(earlier))
    applied = await apply(store, run_id, EraseRun(by=by), reading=Reading(held=stored))
    if applied.refused is not None:
        if applied.refused.reason is Reason.NOT_TERMINAL:
            raise StillLive(f"Run {run_id} is not over. Cancel it first, then erase it.")
        visible(None, run_id, tenant_id)
    try:
        await clear(store, run_id, earlier)
    except Unavailable as error:
        fields = {"run_id": run_id, "error": error.message}
        log.warning("an erased run has left something; housekeeping removes it", extra=fields)
