"""Whoever got a 200 has a run, whatever is killed next."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import TaskSucceeded
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, until
from tests.promises.flows import footprints
from tests.promises.stack import Gateway, processes

SUBMITTERS = 16
ENOUGH = 150


@pytest.mark.slow
async def test_runs_answered_before_a_gateway_is_killed_complete_once(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        started.worker("w1")
        await gateway.ready()
        burst = Burst(gateway)
        burst.start()
        await burst.reached(ENOUGH)
        gateway.kill()
        await burst.stop()
        gateway.start()
        await gateway.ready()
        await _all_complete(gateway, burst.answered)
        executed = Counter(footprints(started.footprints))
    assert all(executed[f"{run_id} first"] == executed[f"{run_id} second"] == 1 for run_id in burst.answered)
    for run_id in burst.answered:
        assert await _successes(store, run_id) == Counter({"first": 1, "second": 1})


@pytest.mark.slow
async def test_runs_answered_before_the_broker_is_killed_complete(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    config = config_for(own_nats_server)
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        started.worker("w1")
        await gateway.ready()
        burst = Burst(gateway)
        burst.start()
        for goal in (ENOUGH, 2 * ENOUGH):
            await burst.reached(goal)
            own_nats_server.kill()
            own_nats_server.start()
        await burst.reached(3 * ENOUGH)
        await burst.stop()
        await gateway.ready()
        await _all_complete(gateway, burst.answered)
        store = await Store.connect(config, name="test")
        for run_id in burst.answered:
            assert await _successes(store, run_id) == Counter({"first": 1, "second": 1})
        await store.close()


class Burst:
    """Submits from many sides until stopped; remembers every run that was answered 200."""

    def __init__(self, gateway: Gateway) -> None:
        self._client = httpx.AsyncClient(base_url=gateway.url, timeout=10)
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.answered: list[str] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._submit()) for _ in range(SUBMITTERS)]

    async def reached(self, count: int) -> None:
        await until(lambda: len(self.answered) >= count, within_sec=60)

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def _submit(self) -> None:
        while not self._stopping:
            try:
                answer = await self._client.post("/runs", json={"flow_name": "steps"})
            except httpx.HTTPError:
                await asyncio.sleep(0.02)
                continue
            if answer.status_code == 200:
                self.answered.append(answer.json()["run_id"])
            else:
                assert answer.status_code == 503, answer.text
                await asyncio.sleep(0.02)


async def _all_complete(gateway: Gateway, run_ids: list[str]) -> None:
    limits = httpx.Limits(max_connections=SUBMITTERS)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=90, limits=limits) as client:
        gate = asyncio.Semaphore(SUBMITTERS)

        async def status(run_id: str) -> str:
            async with gate:
                return str((await client.get(f"/runs/{run_id}", params={"wait": 60})).json()["status"])

        statuses = Counter(await asyncio.gather(*map(status, run_ids)))
    assert statuses == Counter({"COMPLETED": len(run_ids)})


async def _successes(store: Store, run_id: str) -> Counter[str]:
    commits = await store.runs.events(run_id)
    return Counter(e.task for _, events in commits for e in events if isinstance(e, TaskSucceeded))
