"""Read runs: one as the log has it, many as the read model has them."""

from __future__ import annotations

import asyncio

from pyoco_server.cursors import Scope, TokenRefused, seal, unseal
from pyoco_server.errors import Invalid, NotFound
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs import search
from pyoco_server.read_model.run_pages import PagePosition
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store

INVALID_LIST = "ERR-PYOCO-0017"
CURSOR = "runs"


async def get_run(
    store: Store, run_id: str, *, tenant_id: str | None = None, whole: bool = False
) -> StoredRun:
    """404 is only said after a look at the leader; another tenant's run is not there. It has all its tasks.

    Of several copies one may lag: whoever has just cancelled a run, or heard of its end, must not be shown it
    as it was before. So where there are copies, all looks are at the leader.
    """
    has_copies = store.has_copies
    stored = await store.runs.load(run_id, at_leader=has_copies, whole=whole)
    if stored is None and not has_copies:
        stored = await store.runs.load(run_id, at_leader=True, whole=whole)
    if stored is not None and stored.run.tasks_dropped:
        stored = await store.runs.load(run_id, at_leader=has_copies, whole=True)
    return visible(stored, run_id, tenant_id)


async def list_runs(read_model: ReadModel, wanted: Filter, limit: int) -> list[Run]:
    await read_model.catch_up()
    return read_model.runs.page(wanted, limit)


async def page_of_runs(
    store: Store,
    read_model: ReadModel,
    wanted: Filter,
    limit: int,
    cursor: str | None,
    *,
    text: str | None = None,
) -> tuple[list[Run], str | None]:
    """A page, and the cursor of the next one; None when all that match were shown as they are now."""
    secret = await store.secrets.for_tokens()
    await read_model.catch_up()
    scope: Scope = wanted._asdict() | {"log": read_model.log_created} | ({"text": text} if text else {})
    place = _place(secret, scope, cursor)
    if text:
        runs, goes_on = await search.next_page(read_model, wanted, limit, place, text)
    else:
        runs, goes_on = read_model.next_page(wanted, limit, place)
    return runs, seal(secret, CURSOR, scope, goes_on) if goes_on else None


async def get_many(store: Store, run_ids: list[str]) -> list[StoredRun]:
    """Those of them that still are there, as their snapshots have them: `lacks` says what those leave out.

    So a page costs at most its length times `max_run_snapshot_bytes`, however long the logs are.
    """
    found = await asyncio.gather(*(store.runs.load(run_id, at_leader=store.has_copies) for run_id in run_ids))
    return [stored for stored in found if stored is not None and not stored.run.gone]


def _place(secret: bytes, scope: Scope, cursor: str | None) -> PagePosition | None:
    if cursor is None:
        return None
    try:
        return PagePosition(*unseal(secret, CURSOR, scope, cursor))
    except TokenRefused:
        message = "cursor is not one of this list: pass it on unchanged, with the same filters."
        problem = {"loc": ["query", "cursor"], "msg": message, "type": "value_error"}
        raise Invalid(message, err_id=INVALID_LIST, details=[problem]) from None


def visible(stored: StoredRun | None, run_id: str, tenant_id: str | None) -> StoredRun:
    foreign = stored is not None and tenant_id is not None and stored.run.tenant_id != tenant_id
    if stored is None or stored.run.gone or foreign:
        raise NotFound(f"There is no run {run_id}. Check the id, or list runs with GET /runs.")
    return stored
