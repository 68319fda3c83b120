"""The broker goes away and comes back: nothing is restarted, nothing is executed twice, nobody takes over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conftest import NatsServer, config_for, until
from tests.promises.outage import FIVE, Outcomes, submitted, under_way
from tests.promises.stack import processes

AWAY_SEC = 20.0
SHORT_SEC = 10.0


@pytest.mark.slow
async def test_a_worker_goes_on_after_a_broker_that_was_killed_and_twenty_seconds_away(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    with processes(config_for(own_nats_server), tmp_path) as started:
        gateway, worker = started.gateway(), started.worker("w1", concurrency=2)
        await gateway.ready()
        runs = await submitted(gateway, "five", 6)
        await until(lambda: under_way(started, "two"), within_sec=30)
        own_nats_server.kill()
        await asyncio.sleep(AWAY_SEC)  # waits: that is what is shown
        own_nats_server.start()
        await gateway.ready()
        runs += await submitted(gateway, "five", 2)
        outcomes = await Outcomes.of(gateway, started, runs)
        assert worker.poll() is None
    assert outcomes.statuses == {"COMPLETED"}
    assert outcomes.succeeded_once(FIVE)
    assert outcomes.executed_once(FIVE)
    assert (outcomes.claims_per_run, outcomes.losses) == ({1}, 0)


@pytest.mark.slow
async def test_no_run_changes_hands_while_the_broker_is_away(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    """Leases stand still for twice as long as they may, and it is nobody's fault."""
    config = config_for(own_nats_server)
    assert config.worker_lease_sec < SHORT_SEC
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        for name in ("w1", "w2"):
            started.worker(name, concurrency=1)
        await gateway.ready()
        runs = await submitted(gateway, "five", 6)
        await until(lambda: under_way(started, "two", at_least=2), within_sec=30)
        own_nats_server.kill()
        await asyncio.sleep(SHORT_SEC)  # waits: that is what is shown
        own_nats_server.start()
        outcomes = await Outcomes.of(gateway, started, runs)
    assert outcomes.statuses == {"COMPLETED"}
    assert outcomes.executed_once(FIVE)
    assert (outcomes.claims_per_run, outcomes.losses) == ({1}, 0)
    assert outcomes.workers == {"w1", "w2"}


@pytest.mark.slow
async def test_a_broker_that_hangs_again_and_again_delays_runs_and_no_more(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    """Connections stay up and answers do not come: every request under way is lost or late."""
    config = config_for(own_nats_server, broker_timeout_sec=1.0)
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        started.worker("w1", concurrency=2)
        await gateway.ready()
        runs = await submitted(gateway, "five", 8)
        await until(lambda: under_way(started, "one"), within_sec=30)
        for _ in range(8):
            own_nats_server.pause()
            # waits: longer than a request may take, shorter than a connection is given up
            await asyncio.sleep(0.8)
            own_nats_server.resume()
            # waits: long enough for a few commits to get through
            await asyncio.sleep(0.3)
        outcomes = await Outcomes.of(gateway, started, runs)
    assert outcomes.statuses == {"COMPLETED"}
    assert outcomes.succeeded_once(FIVE)
    assert outcomes.executed_once(FIVE)
    assert outcomes.losses == 0
