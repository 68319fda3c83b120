"""Three brokers with three copies of everything, two gateways, two workers: the leader is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for
from tests.promises.cluster import cluster
from tests.promises.stack import processes
from tests.promises.test_nothing_answered_is_lost import Burst, _all_complete, _successes


class _At(NatsServer):
    """Where a cluster is, for `config_for`."""

    def __init__(self, url: str) -> None:
        self.url = url


def config_at(url: str) -> NatsBackendConfig:
    return config_for(_At(url), nats_replicas=3)


@pytest.mark.slow
async def test_a_killed_leader_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as brokers:
        await brokers.ready()
        config = config_at(brokers.url)
        with processes(config, tmp_path) as started:
            one, two = started.gateway(), started.gateway()
            started.worker("w1", concurrency=2)
            started.worker("w2", concurrency=2)
            await one.ready()
            await two.ready()
            burst = Burst(one)
            burst.start()
            await burst.reached(60)
            leader = await brokers.leader_of(config.events_stream)
            leader.kill()
            await burst.reached(120)
            leader.start()
            await burst.reached(160)
            await burst.stop()
            await one.ready()
            await two.ready()
            await _all_complete(two, burst.answered)
            async with httpx.AsyncClient(base_url=two.url, timeout=30) as client:
                listed = (await client.get("/runs", params={"limit": 200})).json()
                run_id = (await client.post("/runs", json={"flow_name": "five"})).json()["run_id"]
                cancelled = (await client.post(f"/runs/{run_id}/cancel")).json()
                ended = (await client.get(f"/runs/{run_id}", params={"wait": 60})).json()
            assert (cancelled["status"], ended["status"]) == ("CANCELLING", "CANCELLED")
            # Beside them may stand runs that nobody was told of: their submission ended in a 503.
            answered = set(burst.answered)
            assert {run["status"] for run in listed if run["run_id"] in answered} == {"COMPLETED"}
            store = await Store.connect(config, name="test")
            for run_id in burst.answered:
                assert await _successes(store, run_id) == Counter({"first": 1, "second": 1})
            await store.close()
