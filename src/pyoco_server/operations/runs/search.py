"""Find runs by a text in what a list shows of them: id, flow, tags, worker, error. Newest first, in portions.

There is no index for this. So a request looks through a bounded number of runs and says where to go on, also
when it has found few or none: the caller decides how far back to look.
"""

from __future__ import annotations

import asyncio
import re

from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.run_pages import PagePosition
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel

LOOKED_AT_MAX = 4_000
PORTION = 200

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def next_page(
    read_model: ReadModel, wanted: Filter, limit: int, place: PagePosition | None, text: str
) -> tuple[list[Run], PagePosition | None]:
    """At most `limit` that have the text, and where to go on; None: there are no more."""
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
            fitting = [run for run in runs if has(run, sought)]
            if len(found) + len(fitting) <= limit:
                break
            portion //= 2  # more than there is room for: the page ends within this portion
        found += fitting
        if goes_on is None or len(found) >= limit:
            return found, goes_on
        place = goes_on
        await asyncio.sleep(0)  # others have their turn between two portions
    return found, place


def has(run: Run, sought: str) -> bool:
    shown = (run.run_id, run.flow_name, run.tag, *run.tags, run.worker_id or "", run.error or "")
    return any(sought in one.casefold() for one in shown)
