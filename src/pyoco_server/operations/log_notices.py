"""A line in a run's log by somebody who does not execute it: a cancel before it began, a worker that is gone.

A favour to whoever reads: what it tells is in the events too, so nothing waits for a line that cannot be had.
"""

from __future__ import annotations

import logging
import time

from pyoco_server.errors import Unavailable
from pyoco_server.ids import new_token
from pyoco_server.store.logs import Line, LogMoved
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

TRIES_MAX = 3


async def note(store: Store, run_id: str, text: str, *, fence: int = 0) -> None:
    """`fence`: whoever writes with a lower one finds this line, and stops."""
    line = Line(time.time(), "system", text, level="WARNING")
    try:
        end = await store.logs.end(run_id)
        for _ in range(TRIES_MAX):
            try:
                await store.logs.append(
                    run_id, end, [line], fence=max(end.fence, fence), chunk_id=new_token()
                )
                return
            except LogMoved as moved:
                end = moved.now
    except Unavailable as error:
        log.warning("a line of a run is missing", extra={"run_id": run_id, "error": error.message})
