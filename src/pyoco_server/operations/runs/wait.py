"""Wait for the end of a run. The feed delivers it; nothing is polled."""

from __future__ import annotations

import asyncio

from pyoco_server.operations.live.run_views import RunViews
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.supervision import wait_for_event


async def wait_for_end(
    views: RunViews, run_id: str, *, timeout_sec: float, tenant_id: str | None = None
) -> StoredRun:
    """The run with all its tasks, as soon as it has ended, or in its state at the timeout.

    It is read once at the beginning. Its end comes from the feed and is not read again.
    """
    ended = asyncio.Event()

    def on_change() -> None:
        if view.stored.run.is_terminal:
            ended.set()

    view = await views.subscribe(run_id, tenant_id=tenant_id)
    view.attach(on_change)
    try:
        on_change()
        await wait_for_event(ended, timeout_sec)
        return view.stored
    finally:
        view.detach(on_change)
        views.unsubscribe(run_id, view)
