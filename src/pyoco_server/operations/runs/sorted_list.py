"""Lists of runs by submission or duration, in pages that do not shift while runs are added or change."""

from __future__ import annotations

import asyncio

from pyoco_server.cursors import Scope, TokenRefused, seal, unseal
from pyoco_server.errors import Invalid
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.positions import packed, unpacked
from pyoco_server.operations.runs.query import INVALID_LIST, LOOKED_AT_MAX, has_text
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.read_model.sorted_runs import SortedPosition, Sorting, sorted_page
from pyoco_server.store.store import Store

CURSOR = "sorted runs"
PORTION = 500


async def page_of_sorted_runs(
    store: Store,
    read_model: ReadModel,
    wanted: Filter,
    sorting: Sorting,
    limit: int,
    cursor: str | None,
    *,
    text: str | None = None,
) -> tuple[list[Run], str | None]:
    """A page, and the cursor of the next one; None after the last page.

    A request looks at a bounded number of runs, and returns a cursor also when it has found few or none.
    """
    secret = await store.secrets.for_tokens()
    await read_model.catch_up()
    scope: Scope = wanted._asdict() | sorting._asdict() | ({"text": text} if text else {})
    place = _opened(secret, scope, cursor)
    sought = (text or "").casefold()
    found: list[Run] = []
    for _ in range(LOOKED_AT_MAX // PORTION):
        page = sorted_page(
            read_model.runs.connection,
            wanted,
            sorting,
            limit - len(found),
            place,
            looked_at_max=PORTION,
            fits=lambda run: has_text(run, sought),
        )
        found += page.runs
        place = page.following
        if place is None or len(found) == limit:
            break
        await asyncio.sleep(0)  # other requests can run between two portions
    return found, seal(secret, CURSOR, scope, packed(*place)) if place else None


def _opened(secret: bytes, scope: Scope, cursor: str | None) -> SortedPosition | None:
    if cursor is None:
        return None
    try:
        return SortedPosition(*unpacked(unseal(secret, CURSOR, scope, cursor)))
    except TokenRefused:
        message = "cursor is not one of this list: pass it on unchanged, with the same filters and sort."
        raise Invalid.at(["query", "cursor"], message, err_id=INVALID_LIST) from None
