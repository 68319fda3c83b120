"""A run that kills its whole worker, each time: it ends FAILED, and the others come through."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyoco_server.cli.server.up_plan import WorkerPlan
from pyoco_server.cli.server.worker_process import WorkerProcess
from pyoco_server.config import NatsBackendConfig, default_of, field_names
from pyoco_server.lifecycle.events import RunFailed, RunLost, TaskSucceeded
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, until
from tests.promises.outage import Outcomes, submitted
from tests.promises.stack import processes
from tests.worker.slots.slot_stage import is_alive
from tests.worker.stage import letters

SPEC = f"{Path(__file__).with_name('killers.py')}:resolve"
LOSSES_MAX = 3


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server, consumer_max_deliver=LOSSES_MAX, worker_concurrency=2, load_dotenv=False)


@asynccontextmanager
async def supervised(config: NatsBackendConfig) -> AsyncIterator[None]:
    """A worker as `up` keeps one: started again whenever it dies."""
    settings = {n: getattr(config, n) for n in field_names() if getattr(config, n) != default_of(n)}
    worker = WorkerProcess(WorkerPlan("w", ("default",), SPEC), settings, drain_sec=1.0)
    await worker.start()
    try:
        yield
        assert not worker.refused.is_set()
    finally:
        await worker.stop()


@pytest.mark.slow
async def test_a_run_that_kills_its_worker_every_time_fails_and_the_others_complete(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        await gateway.ready()
        [killer] = await submitted(gateway, "killer", 1)
        others = await submitted(gateway, "harmless", 12)
        async with supervised(config):
            killed = await Outcomes.of(gateway, started, [killer])
            others += await submitted(gateway, "harmless", 3)
            rest = await Outcomes.of(gateway, started, others)
    assert killed.statuses == {"FAILED"}
    events = killed.log[killer]
    assert [event.reason for event in events if isinstance(event, RunFailed)] == ["max_deliver"]
    assert {event.cause for event in events if isinstance(event, RunLost)} == {LossCause.WORKER_LOST}
    assert [event.task for event in events if isinstance(event, TaskSucceeded)] == ["before"]
    assert rest.statuses == {"COMPLETED"}
    assert rest.succeeded_once(["first", "second"])
    [letter] = await letters(store)
    assert (letter["reason"], letter["run_id"]) == ("max_deliver", killer)


@pytest.mark.slow
async def test_a_long_run_beside_a_killer_is_not_counted_out_with_it(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    """It never gets through beside the killer: both lose the same workers, until they are kept apart."""
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        await gateway.ready()
        [killer] = await submitted(gateway, "killer", 1, after_sec=0.5)
        [long_one] = await submitted(gateway, "harmless", 1, takes_sec=3.0)
        async with supervised(config):
            both = await Outcomes.of(gateway, started, [killer, long_one])
    assert both.shown == {killer: "FAILED", long_one: "COMPLETED"}


@pytest.mark.slow
async def test_what_a_task_had_started_dies_with_a_worker_that_is_killed(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        command = ["pyoco-worker", "--worker-id", "w", "--flow-resolver", SPEC]
        worker = started.run(command, "worker")
        await gateway.ready()
        await submitted(gateway, "leaves_child", 1, pids=str(pids))
        await until(pids.exists, within_sec=30)
        slot, child = map(int, pids.read_text().split())
        worker.kill()
        try:
            await until(lambda: not is_alive(slot) and not is_alive(child))
        finally:
            if is_alive(child):
                os.kill(child, signal.SIGKILL)
