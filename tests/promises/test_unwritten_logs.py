"""Runs that print nothing, some stored and some made from events: a line that was shown stays as it is."""

from __future__ import annotations

import asyncio
import random
import re
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from pyoco_server.worker.recording.run_log import HOLD_SEC
from tests.promises.stack import Processes, processes

LINES = {"Accept": "application/x-ndjson"}
JOBS, KILLS = 30, 3

Shown = dict[str, list[tuple[str, bytes]]]


@pytest.mark.slow
async def test_lines_that_were_shown_stay_whoever_is_killed_before_the_end(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:
            jobs = await _created(client)
            looking = asyncio.create_task(_look_until_all_have_ended(client, jobs))
            await _kill_workers(started, looking)
            shown = await asyncio.wait_for(looking, 120)
            pages = {job: (await client.get(f"/jobs/{job}/logs")).json() for job in jobs}
    for job, seen in shown.items():
        assert all(later.startswith(earlier) for (_, earlier), (_, later) in pairwise(seen))
        assert len(dict(seen)) == len(set(seen)) == len({body for _, body in seen})
        said = [entry["message"] for entry in pages[job]["entries"]]
        assert pages[job]["complete"]
        assert [entry["seq"] for entry in pages[job]["entries"]] == list(range(1, len(said) + 1))
        assert said[-1] == "run completed"
        # A worker that is killed between its last lines and the commit of the end leaves this line behind.
        assert 1 <= said.count("run completed") <= sum(_begins_an_attempt(text) for text in said)
        assert sum("task only succeeded" in text for text in said) == 1
    stored = [(await store.logs.end(job)).lines for job in jobs]
    assert 0 in stored
    assert any(stored)


def _begins_an_attempt(text: str) -> bool:
    return re.match(r"attempt \d+ begins", text) is not None


async def _created(client: httpx.AsyncClient) -> list[str]:
    """Some end before their notices have to be stored, and some after."""
    chance = random.Random(3)
    asked = [{"millis": chance.choice([0, 100, HOLD_SEC * 1_500])} for _ in range(JOBS)]
    answers = [
        await client.post("/jobs", json={"parameters": one, "flow": "quick"}, timeout=30) for one in asked
    ]
    return [str(answer.json()["id"]) for answer in answers]


async def _kill_workers(started: Processes, looking: asyncio.Task[Shown]) -> None:
    for number in range(KILLS):
        worker = started.worker(f"victim{number}", concurrency=2)
        await asyncio.wait([looking], timeout=2.5)
        worker.kill()
        worker.wait()
    started.worker("last", concurrency=4)


async def _look_until_all_have_ended(client: httpx.AsyncClient, jobs: list[str]) -> Shown:
    """Tags and contents of each log, as they follow each other."""
    shown: Shown = {job: [] for job in jobs}
    left = list(jobs)
    while left:
        for job in tuple(left):
            status = (await client.get(f"/jobs/{job}")).json()["status"]
            answer = await client.get(f"/jobs/{job}/logs", headers=LINES)
            shown[job].append((answer.headers["etag"], answer.content))
            if status == "completed":
                left.remove(job)
    return shown
