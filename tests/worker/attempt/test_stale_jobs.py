"""A stale job and the current one of the same run reach a worker together: the run is executed once."""

from __future__ import annotations

import asyncio
import threading

from pyoco_server.lifecycle.commands import ClaimRun, ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.worker.stage import (
    Flows,
    count_of,
    ended_as,
    jobs_queued,
    one_task,
    queue_drained,
    submitted,
    waiting,
    working,
)


async def test_a_stale_job_beside_the_current_one_does_not_take_the_run_from_us(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    flows = Flows(slow=one_task(waiting(started, go_on)))
    run_id = await submitted(store, "slow")
    await apply(store, run_id, ClaimRun(worker_id="dead", instance_id="dead.1", job_no=1))
    loss = ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=20, crashes_max=3, detail="it died")
    await apply(store, run_id, loss)
    assert await jobs_queued(store) == 2
    async with working(store.config, flows, concurrency=3) as worker:
        serving = asyncio.create_task(worker.serve())
        await until(started.is_set)
        await until(lambda: _is_stale_one_gone(store))
        go_on.set()
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert (await count_of(store, run_id, "RunLost"), await count_of(store, run_id, "RunClaimed")) == (
            1,
            2,
        )
        assert flows.asked == ["slow"]
        worker.stop()
        await asyncio.wait_for(serving, 10.0)


async def _is_stale_one_gone(store: Store) -> bool:
    return await jobs_queued(store) == 1
