"""Three brokers with three copies of everything, two gateways, two workers: the leader is killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.commands import AddTag
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.query import get_run
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for
from tests.promises.cluster.nodes import cluster
from tests.promises.stack import processes
from tests.promises.test_nothing_answered_is_lost import Burst, _all_complete, _successes


class _At(NatsServer):
    """Where a cluster is, for `config_for`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.configs = []


def config_at(url: str, **changes: Any) -> NatsBackendConfig:
    return config_for(_At(url), nats_replicas=3, **changes)


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


@pytest.mark.slow
async def test_three_copies_are_noticed_although_the_setting_says_one(tmp_path: Path) -> None:
    """A stream that an operator has given copies: a GET after a cancel must not come from one that lags."""
    with cluster(tmp_path / "cluster") as brokers:
        await brokers.ready()
        made = await Store.connect(config_at(brokers.url), name="maker")
        await made.close()
        store = await Store.connect(replace(made.config, nats_replicas=1), name="test")
        assert store.has_copies
        run_id = (await submit(store, Submission(flow_name="five"))).run.run_id
        for number in range(50):
            await apply(store, run_id, AddTag(tag=f"t{number}", tags_max=100))
            assert f"t{number}" in (await get_run(store, run_id)).run.tags
        await store.close()
