"""Read runs: one from the log, lists from the read model."""

from __future__ import annotations

import asyncio
import re

from pyoco_server.cursors import Scope, TokenRefused, seal, unseal
from pyoco_server.errors import Invalid, NotFound
from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.run_pages import PagePosition
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store

INVALID_LIST = "ERR-PYOCO-0017"
CURSOR = "runs"
LOOKED_AT_MAX = 4_000
PORTION = 200

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def get_run(
    store: Store, run_id: str, *, tenant_id: str | None = None, whole: bool = False
) -> StoredRun:
    """The run with all its tasks. NotFound after a read at the leader, and for a run of another tenant.

    On a cluster a copy may lag. A client that has cancelled a run, or received its end, must not see an older
    state, so with several copies every read is at the leader.
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
    """A page, and the cursor of the next one; None after the last page."""
    secret = await store.secrets.for_tokens()
    await read_model.catch_up()
    scope: Scope = wanted._asdict() | {"log": read_model.log_created} | ({"text": text} if text else {})
    place = _place(secret, scope, cursor)
    if text:
        runs, following = await _search(read_model, wanted, limit, place, text)
    else:
        runs, following = read_model.next_page(wanted, limit, place)
    return runs, seal(secret, CURSOR, scope, following) if following else None


async def runs_with_prefix(
    read_model: ReadModel, prefix: str, limit: int, *, tenant_id: str | None
) -> list[Run]:
    """The runs that a short id may mean."""
    await read_model.catch_up()
    return read_model.runs.with_prefix(prefix, tenant_id, limit)


async def get_many(store: Store, run_ids: list[str]) -> list[StoredRun]:
    """Those that still exist, from their snapshots: `lacks` names what a snapshot leaves out.

    So a page costs at most its length times `max_run_snapshot_bytes`, at any length of the logs.
    """
    found = await asyncio.gather(*(store.runs.load(run_id, at_leader=store.has_copies) for run_id in run_ids))
    return [stored for stored in found if stored is not None and not stored.run.gone]


async def _search(
    read_model: ReadModel, wanted: Filter, limit: int, place: PagePosition | None, text: str
) -> tuple[list[Run], PagePosition | None]:
    """At most `limit` runs that contain the text, and the next position; None: there are no more.

    There is no index for this. A request looks at a bounded number of runs, the newest first, and returns the
    next position also when it has found few or none. The client decides how far back to look.
    """
    if wanted == Filter(tenant=wanted.tenant) and _ID.fullmatch(text):
        run = read_model.find(text)  # a whole id needs no search
        if run is not None and wanted.tenant in (None, run.tenant_id):
            return [run], None
    found: list[Run] = []
    sought = text.casefold()
    for _ in range(LOOKED_AT_MAX // PORTION):
        portion = PORTION
        while True:
            runs, goes_on = read_model.next_page(wanted, portion, place)
            fitting = [run for run in runs if has_text(run, sought)]
            if len(found) + len(fitting) <= limit:
                break
            portion //= 2  # too many for the page: it ends within this portion
        found += fitting
        if goes_on is None or len(found) >= limit:
            return found, goes_on
        place = goes_on
        await asyncio.sleep(0)  # other requests can run between two portions
    return found, place


def has_text(run: Run, sought: str) -> bool:
    """Whether what a list shows of a run contains this text, which is case-folded."""
    shown = (run.run_id, run.flow_name, run.tag, *run.tags, run.worker_id or "", run.error or "")
    return any(sought in one.casefold() for one in shown)


def _place(secret: bytes, scope: Scope, cursor: str | None) -> PagePosition | None:
    if cursor is None:
        return None
    try:
        return PagePosition(*unseal(secret, CURSOR, scope, cursor))
    except TokenRefused:
        message = "cursor is not one of this list: pass it on unchanged, with the same filters."
        raise Invalid.at(["query", "cursor"], message, err_id=INVALID_LIST) from None


def visible(stored: StoredRun | None, run_id: str, tenant_id: str | None) -> StoredRun:
    check_visible(None if stored is None else stored.run, run_id, tenant_id)
    assert stored is not None, "a run that is missing is refused"
    return stored


def check_visible(run: Run | None, run_id: str, tenant_id: str | None) -> None:
    """Raises NotFound if there is no such run for this tenant."""
    foreign = run is not None and tenant_id is not None and run.tenant_id != tenant_id
    if run is None or run.gone or foreign:
        raise NotFound(f"There is no run {run_id}. Check the id, or list runs with GET /runs.")
