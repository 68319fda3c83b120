"""Minutes of `kill -9` at random, under load: whoever got an answer has a run that ends, each task once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.cli.nursery import Process
from tests.conftest import NatsServer, config_for
from tests.promises.outage import FIVE, Outcomes
from tests.promises.stack import Gateway, Processes, processes

LASTING_SEC = {"a minute": 60.0, "five minutes": 300.0}
SUBMIT_EVERY_SEC = 0.25
SEED = 4222


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("lasting_sec", LASTING_SEC.values(), ids=LASTING_SEC)
async def test_every_answered_run_completes_whatever_is_killed(
    own_nats_server: NatsServer, tmp_path: Path, lasting_sec: float
) -> None:
    with processes(config_for(own_nats_server), tmp_path) as started:
        cast = _Cast(started, own_nats_server)
        await cast.gateway.ready()
        load = _Load(cast.gateway)
        submitting = asyncio.create_task(load.submit())
        await cast.kill_at_random(lasting_sec)
        load.stopping = True
        await submitting
        await cast.gateway.ready()
        outcomes = await Outcomes.of(cast.gateway, started, load.answered, within_sec=300.0)
    assert Counter(outcomes.shown.values()) == Counter({"COMPLETED": len(load.answered)})
    assert outcomes.succeeded_once(FIVE)
    # Else nothing was shown: everybody was killed, there was work, and some of it was lost and taken over.
    assert set(cast.killed) == {"w1", "w2", "gateway", "broker"}
    assert len(load.answered) > lasting_sec
    assert outcomes.losses > 0


class _Cast:
    """Who is there to be killed, and comes back."""

    def __init__(self, started: Processes, broker: NatsServer) -> None:
        self._started = started
        self._broker = broker
        self._chance = random.Random(SEED)
        self._workers: dict[str, Process] = {}
        self.gateway = started.gateway()
        self.killed: Counter[str] = Counter()
        for name in ("w1", "w2"):
            self._start_worker(name)

    async def kill_at_random(self, lasting_sec: float) -> None:
        loop = asyncio.get_running_loop()
        until_at = loop.time() + lasting_sec
        while loop.time() < until_at:
            await asyncio.sleep(self._chance.uniform(0.5, 4.0))
            who = self._chance.choice(["w1", "w2", "gateway", "broker"])
            await self._kill_and_start(who)
            self.killed[who] += 1

    async def _kill_and_start(self, who: str) -> None:
        pause_sec = self._chance.choice([0.0, 0.5, 3.0])
        if who == "broker":
            self._broker.kill()
            await asyncio.sleep(pause_sec)
            self._broker.start()
        elif who == "gateway":
            self.gateway.kill()
            await asyncio.sleep(pause_sec)
            self.gateway.start()
        else:
            self._workers[who].kill()
            self._workers[who].wait()
            await asyncio.sleep(pause_sec)
            self._start_worker(who)

    def _start_worker(self, name: str) -> None:
        self._workers[name] = self._started.worker(name, concurrency=2)


class _Load:
    """Submits at a steady pace; remembers every run that was answered 200."""

    def __init__(self, gateway: Gateway) -> None:
        self._url = gateway.url
        self.stopping = False
        self.answered: list[str] = []

    async def submit(self) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=10) as client:
            while not self.stopping:
                try:
                    answer = await client.post("/runs", json={"flow_name": "five"})
                except httpx.HTTPError:
                    answer = None
                if answer is not None and answer.status_code == 200:
                    self.answered.append(str(answer.json()["run_id"]))
                else:
                    assert answer is None or answer.status_code == 503, answer.text
                await asyncio.sleep(SUBMIT_EVERY_SEC)
