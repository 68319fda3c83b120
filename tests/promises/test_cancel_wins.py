"""The promise above all others, against a real broker, two gateways and two workers."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import httpx
import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.store.runs.log import Runs
from pyoco_server.store.store import Store
from tests.promises.stack import processes

RACES = 500
AT_ONCE = 4
TASK_SEC = 0.03
SPREAD_SEC = 0.01


@pytest.mark.slow
async def test_an_accepted_cancel_never_ends_otherwise_in_500_races(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        one, other = started.gateway(), started.gateway()
        started.worker("w1")
        started.worker("w2")
        await one.ready()
        await other.ready()
        limits = httpx.Limits(max_connections=AT_ONCE)
        async with (
            httpx.AsyncClient(base_url=one.url, limits=limits, timeout=60) as submits,
            httpx.AsyncClient(base_url=other.url, limits=limits, timeout=60) as cancels,
        ):
            await _warm_up(submits)
            gate, aim = asyncio.Semaphore(AT_ONCE), _Aim()
            races = [_race(submits, cancels, gate, aim) for _ in range(RACES)]
            ended = dict(await asyncio.gather(*races))
    for run_id in ended:
        await _stored_equals_folded(store.runs, run_id, config.max_run_snapshot_bytes)
    outcomes = Counter(ended.values())
    # Both ways of ending must have occurred, or nothing was raced.
    assert outcomes["CANCELLED"] > RACES // 20, outcomes
    assert outcomes["COMPLETED"] > RACES // 20, outcomes


class _Aim:
    """Aims cancels at the moment of completion: earlier after a miss, later after a hit."""

    def __init__(self) -> None:
        self._delay_sec = TASK_SEC
        self._chance = random.Random(4222)

    def next_delay_sec(self) -> float:
        return max(0.0, self._delay_sec + self._chance.uniform(-SPREAD_SEC, SPREAD_SEC))

    def learn(self, ended: str) -> None:
        self._delay_sec += SPREAD_SEC / 5 * (1 if ended == "CANCELLED" else -1)
        self._delay_sec = max(0.0, self._delay_sec)


async def _race(
    submits: httpx.AsyncClient, cancels: httpx.AsyncClient, gate: asyncio.Semaphore, aim: _Aim
) -> tuple[str, str]:
    async with gate:
        body = {"flow_name": "quick", "params": {"millis": TASK_SEC * 1000}}
        run_id = (await submits.post("/runs", json=body)).json()["run_id"]
        await asyncio.sleep(aim.next_delay_sec())
        accepted = (await cancels.post(f"/runs/{run_id}/cancel")).json()["status"]
        ended = (await submits.get(f"/runs/{run_id}", params={"wait": 30})).json()["status"]
        again = (await cancels.get(f"/runs/{run_id}")).json()["status"]
        aim.learn(ended)
    assert ended == again
    assert ended == ("CANCELLED" if accepted == "CANCELLING" else "COMPLETED")
    return run_id, ended


async def _warm_up(client: httpx.AsyncClient) -> None:
    run_id = (await client.post("/runs", json={"flow_name": "quick"})).json()["run_id"]
    ended = await client.get(f"/runs/{run_id}", params={"wait": 30})
    assert ended.json()["status"] == "COMPLETED"


async def _stored_equals_folded(runs: Runs, run_id: str, max_bytes: int) -> None:
    """The law: what is stored is what the log folds to, but for the heartbeat."""
    commits = await runs.events(run_id)
    run = fold(None, [event for _, events in commits for event in events])
    stored = await runs.snapshots.get(run_id)
    assert run is not None
    assert stored is not None
    folded = snapshot_of(run, max_bytes=max_bytes, commits=len(commits), log_seq=commits[-1][0])
    shown = msgspec.structs.replace(stored, heartbeat_at=folded.heartbeat_at)
    assert msgspec.json.encode(shown) == msgspec.json.encode(folded)
