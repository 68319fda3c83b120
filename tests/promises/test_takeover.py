"""A worker is killed in the middle of a run: somebody goes on where it was."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import RunLost, TaskSucceeded
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.promises.flows import footprints
from tests.promises.stack import processes


@pytest.mark.slow
@pytest.mark.parametrize("successor", ["another worker", "the same worker, restarted"])
async def test_a_run_of_five_steps_goes_on_after_its_worker_is_killed(
    config: NatsBackendConfig, store: Store, tmp_path: Path, successor: str
) -> None:
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        first = started.worker("w1", concurrency=1)
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            run_id = (await client.post("/runs", json={"flow_name": "five"})).json()["run_id"]
            await until(lambda: _began(started.footprints, run_id, "three"), within_sec=30)
            await until(lambda: _recorded(store, run_id, "two"), within_sec=30)
            first.kill()
            started.worker("w2" if successor == "another worker" else "w1", concurrency=1)
            ended = (await client.get(f"/runs/{run_id}", params={"wait": 50})).json()
    assert ended["status"] == "COMPLETED"
    executed = Counter(footprints(started.footprints))
    assert executed[f"{run_id} one"] == executed[f"{run_id} two"] == 1
    events = [event for _, commit in await store.runs.events(run_id) for event in commit]
    succeeded = Counter(event.task for event in events if isinstance(event, TaskSucceeded))
    assert succeeded == Counter({"one": 1, "two": 1, "three": 1, "four": 1, "five": 1})
    assert sum(isinstance(event, RunLost) for event in events) == 1
    said = [entry.message for entry in await store.logs.entries(run_id)]
    successor_begins = next(at for at, text in enumerate(said) if text.startswith("attempt 2 begins"))
    assert {"doing one", "doing two"} <= set(said[:successor_begins])
    assert [text for text in said[successor_begins:] if text.startswith("doing")] == [
        "doing three",
        "doing four",
        "doing five",
    ]


def _began(file: Path, run_id: str, task: str) -> bool:
    return f"{run_id} {task}" in footprints(file)


async def _recorded(store: Store, run_id: str, task: str) -> bool:
    commits = await store.runs.events(run_id)
    return any(isinstance(e, TaskSucceeded) and e.task == task for _, events in commits for e in events)


@pytest.mark.slow
async def test_a_worker_that_slept_through_a_takeover_writes_nothing_and_says_so(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        first = started.worker("w1", concurrency=1)
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            run_id = (await client.post("/runs", json={"flow_name": "five"})).json()["run_id"]
            await until(lambda: _recorded(store, run_id, "two"), within_sec=30)
            asleep = [first.pid, *_children(first.pid)]
            _signal_all(asleep, signal.SIGSTOP)
            try:
                started.worker("w2", concurrency=1)
                ended = (await client.get(f"/runs/{run_id}", params={"wait": 50})).json()
            finally:
                _signal_all(asleep, signal.SIGCONT)
            assert (ended["status"], ended["worker_id"]) == ("COMPLETED", "w2")
            await until(lambda: b"taken over" in (tmp_path / "worker-w1.log").read_bytes(), within_sec=30)
            again = (await client.get(f"/runs/{run_id}")).json()
    assert (again["status"], again["worker_id"], again["updated_at"]) == (
        "COMPLETED",
        "w2",
        ended["updated_at"],
    )
    events = [event for _, commit in await store.runs.events(run_id) for event in commit]
    succeeded = Counter(event.task for event in events if isinstance(event, TaskSucceeded))
    assert succeeded == Counter({"one": 1, "two": 1, "three": 1, "four": 1, "five": 1})


def _children(pid: int) -> list[int]:
    listings = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for listing in listings for child in listing.read_text().split()]


def _signal_all(pids: list[int], sig: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, sig)
