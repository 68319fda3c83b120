"""Wait for what happens to a run: pushed by the feed, never polled."""

from __future__ import annotations

import asyncio

from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.query import get_run
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store


async def wait_for_end(
    store: Store,
    read_model: ReadModel,
    run_id: str,
    *,
    timeout_sec: float,
    tenant_id: str | None = None,
    whole: bool = False,
) -> StoredRun:
    """The run as soon as it is over, or as it is when the time is up."""
    over = asyncio.Event()

    def on_change(run: Run) -> None:
        if run.is_terminal:
            over.set()

    async def look() -> StoredRun:
        return await get_run(store, run_id, tenant_id=tenant_id, whole=whole)

    read_model.watch(run_id, on_change)  # before the look, so that nothing falls between
    try:
        stored = await look()
        if stored.run.is_terminal:
            return stored
        async with asyncio.timeout(timeout_sec):
            await over.wait()
    except TimeoutError:
        pass
    finally:
        read_model.unwatch(run_id, on_change)
    return await look()
