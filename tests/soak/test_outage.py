"""The broker is away for very long: the same promises as after twenty seconds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conftest import NatsServer, config_for, until
from tests.promises.outage import FIVE, Outcomes, submitted, under_way
from tests.promises.stack import processes

AWAY_SEC = {"a minute": 60.0, "ten minutes": 600.0}


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("away_sec", AWAY_SEC.values(), ids=AWAY_SEC)
async def test_a_worker_goes_on_after_a_broker_that_was_away_for_very_long(
    own_nats_server: NatsServer, tmp_path: Path, away_sec: float
) -> None:
    with processes(config_for(own_nats_server), tmp_path) as started:
        gateway = started.gateway()
        workers = [started.worker(name, concurrency=2) for name in ("w1", "w2")]
        await gateway.ready()
        runs = await submitted(gateway, "five", 20)
        await until(lambda: under_way(started, "two", at_least=4), within_sec=30)
        own_nats_server.kill()
        await asyncio.sleep(away_sec)  # waits: that is what is shown
        own_nats_server.start()
        await gateway.ready()
        runs += await submitted(gateway, "five", 4)
        outcomes = await Outcomes.of(gateway, started, runs)
        assert [worker.poll() for worker in workers] == [None, None]
    assert outcomes.statuses == {"COMPLETED"}
    assert outcomes.succeeded_once(FIVE)
    assert outcomes.executed_once(FIVE)
    assert (outcomes.claims_per_run, outcomes.losses) == ({1}, 0)
