"""Runs that keep losing their workers are kept apart from each other, and from nobody else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.commands import ClaimRun, ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.worker.stage import (
    Flows,
    config_on,
    count_of,
    ended_as,
    one_task,
    queue_drained,
    submitted,
    the_run,
    waiting,
    working,
)


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, consumer_max_deliver=4)


@pytest.mark.parametrize(("losses", "together"), [(1, True), (2, False), (3, False)])
async def test_from_half_of_the_losses_on_they_are_executed_one_at_a_time(
    store: Store, losses: int, together: bool
) -> None:
    begun = {name: threading.Event() for name in ("a", "b")}
    go_on = threading.Event()
    flows = Flows(**{name: one_task(waiting(begun[name], go_on)) for name in begun})
    runs = [await _submitted_and_lost(store, name, losses) for name in begun]
    async with working(store.config, flows, tags=["default", *begun], concurrency=3) as worker:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: any(event.is_set() for event in begun.values()))
        harmless = await submitted(store)
        await until(lambda: _is_completed(store, harmless))
        if together:
            await until(lambda: all(event.is_set() for event in begun.values()))
        assert all(event.is_set() for event in begun.values()) == together
        go_on.set()
        await queue_drained(store)
        for run_id in runs:
            await ended_as(store, run_id, "COMPLETED")
            assert await count_of(store, run_id, "RunClaimed") == losses + 1
        worker.stop()
        await asyncio.wait_for(serving, 10.0)


async def _submitted_and_lost(store: Store, flow_name: str, times: int) -> str:
    """On a tag of its own: the jobs that its dead workers had are taken from there."""
    run_id = await submitted(store, flow_name, tag=flow_name)
    puller = await store.queue.pull([flow_name])
    for _ in range(times):
        delivery = await puller.next(5.0)
        assert delivery is not None
        delivery.ack()
        job_no = (await the_run(store, run_id)).job_no
        await apply(store, run_id, ClaimRun(worker_id="dead", instance_id="dead.1", job_no=job_no))
        fence = (await the_run(store, run_id)).fence
        loss = ReportLoss(
            fence=fence, cause=LossCause.WORKER_LOST, losses_max=4, crashes_max=3, detail="it died"
        )
        await apply(store, run_id, loss)
    await puller.close()
    return run_id


async def _is_completed(store: Store, run_id: str) -> bool:
    return (await the_run(store, run_id)).status.value == "COMPLETED"
