"""A worker that is cut off starts no task after its lease has run out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.clock import elapsed
from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping import Housekeeper
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store import store as store_module
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.conftest import NatsServer, until
from tests.faults import flows
from tests.faults.faulty_client import Faults, faulty
from tests.faults.flows import starts_in
from tests.worker.stage import config_on, count_of, ended_as, submitted, the_run

LEASE_SEC = 1.5
# A thread that was told to start a task needs a moment to get there on a busy machine.
MARGIN_SEC = 0.3
SPEC = f"{Path(flows.__file__)}:resolve"
KINDS: dict[str, dict[str, Any]] = {
    "threads": {"flow_resolver": flows.resolve},
    "slots": {"resolver_spec": SPEC},
}


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(
        nats_server,
        broker_timeout_sec=0.3,
        worker_lease_sec=LEASE_SEC,
        worker_lease_interval_sec=0.2,
        housekeeping_interval_sec=0.1,
        run_heartbeat_interval_sec=0.2,
        cancel_grace_period_sec=0.5,
        flow_parallelism=2,
    )


@pytest.fixture
async def store(config: NatsBackendConfig) -> AsyncIterator[Store]:
    """The test's own, which is not cut off and waits longer than the worker does."""
    opened = await Store.connect(replace(config, broker_timeout_sec=10.0), name="test")
    yield opened
    await opened.close()


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KINDS[request.param]


@asynccontextmanager
async def serving(
    config: NatsBackendConfig, worker_id: str, kind: dict[str, Any]
) -> AsyncIterator[PyocoNatsWorker]:
    worker = await PyocoNatsWorker.connect(config, worker_id=worker_id, concurrency=1, **kind)
    work = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        worker.stop()
        await worker.hand_back()
        await asyncio.wait([work], timeout=10.0)
        await worker.close()


@asynccontextmanager
async def cut_off_later(
    config: NatsBackendConfig, faults: Faults, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PyocoNatsWorker]:
    """A worker whose connection can be partitioned."""
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "BrokerClient", faulty(faults))
        worker = serving(config, "cut", kind)
        entered = await worker.__aenter__()
    try:
        yield entered
    finally:
        faults.is_partitioned = False
        await worker.__aexit__(None, None, None)


@asynccontextmanager
async def keeping(config: NatsBackendConfig, store: Store) -> AsyncIterator[None]:
    model = ReadModel(store.client, store.jetstream, config)
    await model.start()
    keeper = Housekeeper(store, model)
    keeper.start()
    try:
        yield
    finally:
        await keeper.stop()
        await model.stop()


async def until_ended(store: Store, run_id: str, status: str) -> None:
    async def is_over() -> bool:
        return (await the_run(store, run_id)).is_terminal

    await until(is_over, within_sec=40)
    await ended_as(store, run_id, status)


def _has_started(marks: Path, count: int, fence: int = 1) -> Callable[[], bool]:
    return lambda: sum(start.fence == fence for start in starts_in(marks)) >= count


async def test_it_starts_nothing_after_its_lease_and_each_task_succeeds_once(
    config: NatsBackendConfig,
    store: Store,
    faults: Faults,
    kind: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = tmp_path / "marks"
    async with keeping(config, store), cut_off_later(config, faults, kind, monkeypatch) as cut:
        run_id = await submitted(store, "wide", params={"marks": str(marks)})
        await until(_has_started(marks, 4))
        faults.is_partitioned = True
        cut_at, until_at = elapsed(), cut._heartbeat.deadline.until
        assert until_at <= cut_at + LEASE_SEC
        async with serving(config, "other", kind):
            await until(_has_started(marks, 1, fence=2), within_sec=30)
            # Time enough for tasks that should not be started.
            await until(lambda: elapsed() > until_at + MARGIN_SEC + 5 * flows.TASK_SEC)
            faults.is_partitioned = False
            await until_ended(store, run_id, "COMPLETED")
    by_the_cut_off = [start for start in starts_in(marks) if start.fence == 1]
    assert [start for start in by_the_cut_off if start.at > until_at + MARGIN_SEC] == []
    assert len(by_the_cut_off) < flows.TASKS, "nothing was left to be started: the test shows nothing"
    assert await count_of(store, run_id, "TaskSucceeded") == flows.TASKS
    run = await the_run(store, run_id)
    assert (run.losses, run.fence) == (1, 2)


async def test_a_short_partition_costs_nothing(
    config: NatsBackendConfig,
    store: Store,
    faults: Faults,
    kind: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody takes over; the lease runs out, nothing is started, and the run goes on when it is renewed."""
    marks = tmp_path / "marks"
    async with cut_off_later(config, faults, kind, monkeypatch) as cut:
        run_id = await submitted(store, "wide", params={"marks": str(marks)})
        await until(_has_started(marks, 4))
        faults.is_partitioned = True
        until_at = cut._heartbeat.deadline.until
        await until(lambda: elapsed() > until_at + MARGIN_SEC)
        held = len(starts_in(marks))
        # waits: that nothing happens cannot be awaited
        await asyncio.sleep(3 * flows.TASK_SEC)
        assert len(starts_in(marks)) == held < flows.TASKS
        faults.is_partitioned = False
        await until_ended(store, run_id, "COMPLETED")
    executed = Counter(start.task for start in starts_in(marks))
    assert (len(executed), set(executed.values())) == (flows.TASKS, {1})
    assert (await the_run(store, run_id)).fence == 1


async def test_a_cancel_whose_push_was_lost_is_noticed_by_the_next_heartbeat(
    config: NatsBackendConfig,
    store: Store,
    faults: Faults,
    kind: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = tmp_path / "marks"
    async with cut_off_later(config, faults, kind, monkeypatch):
        run_id = await submitted(store, "wide", params={"marks": str(marks)})
        await until(_has_started(marks, 2))
        faults.pushes_lost = config.live_subject_prefix
        await cancel_run(store, run_id)
        await until_ended(store, run_id, "CANCELLED")
    assert any(what == "lose_push" for _, what in faults.happened)
    assert len(starts_in(marks)) < flows.TASKS


async def test_a_cancel_whose_push_was_lost_reaches_a_run_that_has_nothing_to_commit(
    config: NatsBackendConfig,
    store: Store,
    faults: Faults,
    kind: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No commit of its own runs into the cancel: only the heartbeat can notice it."""
    marks = tmp_path / "marks"

    async def is_started() -> bool:
        return marks.exists() and await count_of(store, run_id, "TaskStarted") == 1

    async def is_over() -> bool:
        return (await the_run(store, run_id)).is_terminal

    async with cut_off_later(config, faults, kind, monkeypatch):
        run_id = await submitted(store, "long", params={"marks": str(marks)})
        await until(is_started)
        faults.pushes_lost = config.live_subject_prefix
        await cancel_run(store, run_id)
        try:
            await until(is_over, within_sec=flows.LONG_SEC / 2)
        finally:
            (tmp_path / "marks.end").touch()
        await ended_as(store, run_id, "CANCELLED")


async def test_a_worker_without_a_current_lease_claims_nothing(
    config: NatsBackendConfig, store: Store, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with cut_off_later(config, faults, KINDS["threads"], monkeypatch) as cut:
        monkeypatch.setattr(cut._heartbeat.deadline, "until", float("-inf"))
        renew = cut._store.leases.renew
        may_renew = asyncio.Event()

        async def renew_later(*args: Any, **kwargs: Any) -> int:
            await may_renew.wait()
            return await renew(*args, **kwargs)

        monkeypatch.setattr(cut._store.leases, "renew", renew_later)
        await until(lambda: not cut._heartbeat.deadline.is_current)
        run_id = await submitted(store, "wide", params={"marks": str(tmp_path / "marks")})
        # waits: that nothing happens cannot be awaited
        await asyncio.sleep(0.5)
        assert (await the_run(store, run_id)).claim is None
        may_renew.set()
        await until(_has_started(tmp_path / "marks", 1))
