"""A worker that cannot start slots fails no run: it hands them back, takes no more, says so, and recovers."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker import threads as threading_performer
from pyoco_server.worker.slots import pool
from tests.conftest import NatsServer, until
from tests.worker.slots.slot_stage import ended, lines, parent_of, serving, started
from tests.worker.stage import config_on, count_of, submitted, the_run

GOOD = (Path(__file__).parents[1] / "slot_flows.py").read_text()
RUNS = 8


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, worker_heartbeat_interval_sec=0.2)


def kill_with_zygote(pid: int) -> None:
    """The next slot needs a new zygote, which loads the file as it is then."""
    for one in (parent_of(pid), pid):
        os.kill(one, signal.SIGKILL)


async def entry_of(store: Store) -> dict[str, Any]:
    entry = await store.registry.get("w", at_leader=True)
    assert entry is not None
    return entry


async def test_it_hands_its_runs_back_takes_no_more_and_recovers(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RECOVERY", Backoff(first_sec=0.1, longest_sec=0.2))
    marks, flows = tmp_path / "marks", tmp_path / "flows.py"
    flows.write_text(GOOD)
    async with serving(store.config, spec=f"{flows}:resolve") as sick:
        first = await ended(store, await started(store, "pid", marks))
        assert first.status == "COMPLETED"
        flows.write_text("raise RuntimeError('this file was broken by a deployment')")
        kill_with_zygote(int(lines(marks)[0].split()[1]))
        run_ids = [await started(store, "pid", marks) for _ in range(RUNS)]

        async def says_so() -> bool:
            return "broken by a deployment" in str((await entry_of(store)).get("problem"))

        await until(says_so)
        # Whatever it had taken is back in the queue, and it takes nothing.
        await until(lambda: not sick._in_flight)
        for run_id in run_ids:
            run = await the_run(store, run_id)
            assert (run.status.is_terminal, run.claim, run.losses) == (False, None, 0)
        flows.write_text(GOOD)
        for run_id in run_ids:
            assert (await ended(store, run_id)).status == "COMPLETED"

        async def says_that_it_is_well() -> bool:
            return (await entry_of(store))["problem"] is None

        await until(says_that_it_is_well)


async def test_a_healthy_worker_beside_it_executes_the_runs(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RECOVERY", Backoff(first_sec=0.5, longest_sec=0.5))
    marks, flows = tmp_path / "marks", tmp_path / "flows.py"
    flows.write_text(GOOD)
    healthy = Path(__file__).parents[1] / "slot_flows.py"
    async with serving(store.config, spec=f"{flows}:resolve"):
        await ended(store, await started(store, "pid", marks))
        flows.write_text("raise SystemExit(3)")
        kill_with_zygote(int(lines(marks)[0].split()[1]))
        worker = await PyocoNatsWorker.connect(
            store.config, resolver_spec=f"{healthy}:resolve", worker_id="healthy", concurrency=1
        )
        serve = asyncio.create_task(worker.serve())
        run_ids = [await started(store, "pid", marks) for _ in range(RUNS)]
        for run_id in run_ids:
            assert (await ended(store, run_id)).status == "COMPLETED"
        worker.stop()
        await serve
        await worker.close()


async def test_a_library_worker_whose_threads_are_all_stuck_claims_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(_name: str) -> Any:
        raise AssertionError("nothing may be executed")

    worker = await PyocoNatsWorker.connect(store.config, resolve, "w")
    monkeypatch.setattr(threading_performer, "THREADS_MAX", 0)
    run_id = await submitted(store)
    assert await worker.run_once(timeout=1.0) is None
    assert await count_of(store, run_id, "RunClaimed") == 0
    await worker.close()
