"""Wait for what happens to a run: pushed by the feed, never polled."""

from __future__ import annotations

import asyncio

from pyoco_server.operations.live.run_views import RunViews
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.supervision import wait_for_event


async def wait_for_end(
    views: RunViews, run_id: str, *, timeout_sec: float, tenant_id: str | None = None
) -> StoredRun:
    """The run, with all its tasks, as soon as it is over, or as it is when the time is up.

    It is read once, when the waiting begins; its end is what the feed tells, and is not read again.
    """
    over = asyncio.Event()

    def ring() -> None:
        if view.stored.run.is_terminal:
            over.set()

    view = await views.subscribe(run_id, tenant_id=tenant_id)
    view.attach(ring)
    try:
        ring()
        await wait_for_event(over, timeout_sec)
        return view.stored
    finally:
        view.detach(ring)
        views.unsubscribe(run_id, view)
