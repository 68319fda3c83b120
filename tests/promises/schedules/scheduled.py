"""Schedules of every second over two gateways while each component is killed, and what must hold then."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from tests.cli.nursery import Process
from tests.conftest import NatsServer, config_for, until
from tests.promises.stack import Processes, processes

OVERLAPS = ("allow", "skip", "queue_one", "cancel_running")
KILLED = ("g1", "g2", "worker", "broker")
# Longer than the interval, so that occurrences meet a run that goes on.
MILLIS = 1_300
TIMEOUT_SEC = 30.0


async def check_each_occurrence(
    server: NatsServer, folder: Path, lasting_sec: float, seed: int
) -> Counter[str]:
    """Returns how often each outcome was seen, and what was killed."""
    config = config_for(server, housekeeping_interval_sec=0.3)
    with processes(config, folder) as started:
        scene = _Scene(started, server, seed)
        await scene.ready()
        schedules = [await scene.create(overlap) for overlap in OVERLAPS]
        await scene.kill_at_random(lasting_sec)
        await scene.ready()
        seen = scene.killed
        paused = [await scene.ask("POST", f"/schedules/{one}/pause") for one in schedules]
        counts = [len(await scene.runs(one)) for one in schedules]
        for schedule in paused:
            seen += await _check(scene, schedule)
        await until(lambda: time.time() > max(one["next_at"] for one in paused) + 3.0)
        assert [len(await scene.runs(one)) for one in schedules] == counts, "paused schedules start nothing"
    return seen


async def _check(scene: _Scene, schedule: dict[str, Any]) -> Counter[str]:
    schedule_id = schedule["schedule_id"]
    entries = await scene.occurrences(schedule_id)
    handled = sorted(at for entry in entries for at in _instants(entry))
    first = schedule["start_at"]
    assert handled == [first + number for number in range(round(schedule["next_at"] - first))]
    begun = [entry["run_id"] for entry in entries if entry["outcome"] == "started"]
    runs = await scene.runs(schedule_id)
    assert sorted(begun) == sorted(runs), "each run is of one occurrence"
    ended = [await scene.ended(run_id) for run_id in reversed(begun)]
    assert len(begun) == schedule["dispatch_count"]
    if schedule["overlap"] != "allow":
        for before, after in pairwise(ended):
            assert before["end_time"] <= after["submitted_at"], "two at once"
    if schedule["overlap"] != "cancel_running":
        assert {run["status"] for run in ended} == {"COMPLETED"}
    return Counter(entry["reason"] or "started" for entry in entries)


def _instants(entry: dict[str, Any]) -> list[float]:
    found = [entry["first_at"] + number for number in range(entry["count"])]
    assert found[-1] == entry["last_at"]
    return found


class _Scene:
    def __init__(self, started: Processes, broker: NatsServer, seed: int) -> None:
        self._started = started
        self._broker = broker
        self._chance = random.Random(seed)
        self._gateways = {name: started.gateway() for name in ("g1", "g2")}
        self._worker: Process = started.worker("w", concurrency=8)
        self.killed: Counter[str] = Counter()

    async def ready(self) -> None:
        for gateway in self._gateways.values():
            await gateway.ready()

    async def create(self, overlap: str) -> str:
        start_at = round(time.time()) + 1
        wanted = {
            "flow_name": "quick",
            "params": {"millis": MILLIS},
            "interval_seconds": 1,
            "overlap": overlap,
        }
        wanted |= {"start_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start_at))}
        wanted |= {"catch_up": "all_within", "catch_up_within_seconds": 600}
        return str((await self.ask("POST", "/schedules", json=wanted))["schedule_id"])

    async def kill_at_random(self, lasting_sec: float) -> None:
        """Each component at least once."""
        end, rest = time.monotonic() + lasting_sec, [*KILLED]
        self._chance.shuffle(rest)
        while rest or time.monotonic() < end:
            await asyncio.sleep(self._chance.uniform(0.2, 2.0))  # faults come at any moment
            await self._kill_and_start(rest.pop() if rest else self._chance.choice(KILLED))

    async def _kill_and_start(self, name: str) -> None:
        self.killed[name] += 1
        away_sec = self._chance.choice([0.0, 1.0, 2.5])
        if name == "broker":
            self._broker.kill()
            await asyncio.sleep(away_sec)  # how long it is away is part of the fault
            self._broker.start()
        elif name == "worker":
            self._worker.kill()
            self._worker.wait()
            self._worker = self._started.worker("w", concurrency=8)
        else:
            self._gateways[name].kill()
            await asyncio.sleep(away_sec)  # as above
            self._gateways[name].start()

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        gateway = self._chance.choice([*self._gateways.values()])
        async with httpx.AsyncClient(base_url=gateway.url, timeout=TIMEOUT_SEC) as client:
            answer = await client.request(method, path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def runs(self, schedule_id: str) -> list[str]:
        found = await self.ask("GET", f"/schedules/{schedule_id}/runs", params={"limit": 200})
        return [run["run_id"] for run in found]

    async def occurrences(self, schedule_id: str) -> list[dict[str, Any]]:
        """The latest first."""
        found: list[dict[str, Any]] = []
        query = {"limit": 50}
        while True:
            page = await self.ask("GET", f"/schedules/{schedule_id}/occurrences", params=query)
            found += page["occurrences"]
            if page["next_before"] is None:
                return found
            query["before"] = page["next_before"]

    async def ended(self, run_id: str) -> dict[str, Any]:
        run: dict[str, Any] = {}

        async def has_ended() -> bool:
            run.update(await self.ask("GET", f"/runs/{run_id}"))
            return run["end_time"] is not None

        await until(has_ended, within_sec=90)
        return run
