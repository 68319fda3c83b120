"""A cluster in which one stream has no leader: the logs, with one copy on a broker that is killed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from pyoco_server.clock import elapsed
from pyoco_server.store.resources import streams
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.promises.cluster.nodes import cluster
from tests.promises.cluster.test_lost_leader import config_at
from tests.promises.stack import processes

REQUEST_SEC = 2.0
END_SEC = 8.0


async def with_one_copy(store: Store, name: str) -> None:
    """Made again, before anything is in it."""
    wanted = next(one for one in streams(store.config) if one["name"] == name)
    await store.jetstream.api(f"STREAM.DELETE.{name}")
    await store.jetstream.api(f"STREAM.CREATE.{name}", wanted | {"storage": "file", "num_replicas": 1})


@pytest.mark.slow
async def test_runs_end_and_are_cancelled_while_their_log_has_no_leader(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as brokers:
        await brokers.ready()
        config = config_at(brokers.url)
        store = await Store.connect(config, name="test")
        await with_one_copy(store, config.logs_stream)
        with processes(config, tmp_path) as started:
            gateway = started.gateway()
            started.worker("w1", concurrency=2)
            await gateway.ready()
            (await brokers.leader_of(config.logs_stream)).kill()
            async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:

                async def is_served() -> bool:
                    """The other streams have leaders again."""
                    answer = await client.post("/runs", json={"flow_name": "five"})
                    run_id = answer.json().get("run_id")
                    ended = await client.get(f"/runs/{run_id}", params={"wait": 20})
                    return bool(ended.json().get("status") == "COMPLETED")

                await until(is_served, within_sec=150, every_sec=0.5)

                async def is_cancelled_at_once() -> bool:
                    began = elapsed()
                    body = {"flow_name": "five", "tag": "unserved"}
                    waiting = (await client.post("/runs", json=body)).json()
                    cancelled = await client.post(f"/runs/{waiting['run_id']}/cancel")
                    assert cancelled.status_code == 200
                    return elapsed() - began < 2 * REQUEST_SEC

                async def ends_at_once() -> bool:
                    began = elapsed()
                    run_id = (await client.post("/runs", json={"flow_name": "five"})).json()["run_id"]
                    ended = (await client.get(f"/runs/{run_id}", params={"wait": 20})).json()
                    assert ended["status"] == "COMPLETED"
                    return elapsed() - began < END_SEC

                # Once is enough: one that waited for the log would do so every time.
                await until(is_cancelled_at_once, within_sec=60)
                await until(ends_at_once, within_sec=60)
        await store.close()
