"""Erase an ended run: its log, snapshot, output and large results. This cannot be undone.

A mark of the erasure stays in the log and expires (`ERASED_MARK_TTL`).
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
    """The run has not ended. It must be cancelled first."""


async def erase_run(store: Store, run_id: str, *, by: str | None, tenant_id: str | None) -> None:
    """NotFound if the run does not exist (any more), StillLive if it has not ended.

    The commit erases the run; its data elsewhere is removed after it. The run is noted before the commit, so
    that housekeeping repeats the removal after a failure, and removes what is written late.
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
        log.warning("data of an erased run is left; housekeeping removes it", extra=fields)
