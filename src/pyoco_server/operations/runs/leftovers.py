"""Removes data of runs outside the log: everything of an erased run, and objects that no log refers to.

A run is noted first (`store.run_notes`), so that housekeeping repeats an interrupted removal. It is
checked once more after a while, for data from a process that had not yet seen the end of the run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from pyoco_server.lifecycle.events import TaskSucceeded
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.store.run_notes import RunNote
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.runs.results import reference_of
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)


async def clear(store: Store, run_id: str, earlier: Collection[str] = ()) -> None:
    """Remove everything of an erased run. `earlier`: see `Results.remove_all`."""
    await store.logs.erase(run_id)
    await store.results.remove_all(run_id, earlier)
    await store.refusals.erase(run_id)
    await store.runs.snapshots.remove(run_id)


async def clear_up(store: Store, noted: RunNote[tuple[str, ...]], *, not_begun_sec: float) -> bool:
    """Remove the leftovers of a noted run. False if the run is live or may still begin: it stays noted.

    `not_begun_sec`: a retry is noted before its results are copied and it begins. After this long it does not
    begin any more.
    """
    run_id = noted.run_id
    stored = await store.runs.load(run_id, at_leader=True)
    if stored is None and noted.age_sec < not_begun_sec:
        return False
    if stored is not None and not stored.run.gone and not stored.run.is_terminal:
        await store.leftovers.note(run_id, noted.value)
        return False
    if stored is None or stored.run.gone:
        await clear(store, run_id, noted.value)
    elif removed := await store.results.remove_unreferenced(run_id, await _referenced_results(store, stored)):
        log.info(
            "large results that no log refers to were removed", extra={"run_id": run_id, "count": removed}
        )
    await store.leftovers.remove(run_id, noted.revision)
    return True


async def _referenced_results(store: Store, ended: StoredRun) -> set[str]:
    """The objects that any event of the log refers to, also a superseded one. An ended run gets no more."""
    history = await store.runs.history(ended.run.run_id, at_leader=True, upto=ended.log_seq)
    events = (event for commit in history for event in commit.events)
    kept = (
        reference_of(event.output)
        for event in events
        if isinstance(event, TaskSucceeded) and event.kept is OutputKept.REFERENCED
    )
    return {reference.object for reference in kept if reference is not None}
