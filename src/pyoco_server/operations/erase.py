"""Erase a run that is over: from the log, the snapshots, what it printed and its large results. For good."""

from __future__ import annotations

import contextlib
import logging

from pyoco_server.errors import Conflict, NotFound, Unavailable
from pyoco_server.lifecycle.commands import EraseRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.operations.apply import apply
from pyoco_server.operations.query import visible
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)


class StillLive(Conflict):
    """A run that is not over is cancelled first."""


async def erase_run(store: Store, run_id: str, *, by: str | None, tenant_id: str | None) -> None:
    """NotFound for what is not there (any more), StillLive for a run that is not over.

    The commit is what erases it; what it leaves elsewhere is cleared away after. Asked again after a failure
    in between, there is nothing to be found, so what is left then goes by age.
    """
    stored = visible(await store.runs.load(run_id, at_leader=True, whole=True), run_id, tenant_id)
    applied = await apply(store, run_id, EraseRun(by=by), held=stored)
    if applied.refused is not None:
        if applied.refused.reason is Reason.NOT_TERMINAL:
            raise StillLive(f"Run {run_id} is not over. Cancel it first, then erase it.")
        visible(None, run_id, tenant_id)
    try:
        await store.logs.erase(run_id)
        for name in _objects(stored.run):
            await _delete(store, name)
    except Unavailable as error:
        log.warning("an erased run has left something", extra={"run_id": run_id, "error": error.message})


def _objects(run: Run) -> list[str]:
    kept = (record for record in run.tasks.values() if record.kept is OutputKept.REFERENCED)
    return [str(record.output["object"]) for record in kept if isinstance(record.output, dict)]


async def _delete(store: Store, name: str) -> None:
    with contextlib.suppress(NotFound):  # by whoever asked at the same time
        await store.results.delete(name)
