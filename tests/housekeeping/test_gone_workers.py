"""Entries of workers long gone leave the registry; those of the living never do."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping import gone_workers
from pyoco_server.housekeeping.gone_workers import GoneWorkers
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.worker.stage import config_on, working

KEPT_SEC = 1.0


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, worker_disconnect_timeout_sec=0.5, worker_history_sec=KEPT_SEC)


@pytest.fixture
def keeper(store: Store) -> GoneWorkers:
    return GoneWorkers(store)


async def entered(store: Store, worker_id: str, **members: Any) -> None:
    entry = {"state": "IDLE", "last_seen_at": time.time(), "tags": ["default"], "instance_id": "i"}
    await store.registry.merge(worker_id, entry | members)


async def names(store: Store) -> list[str]:
    return [str(entry["worker_id"]) for entry in await store.registry.list()]


async def messages(store: Store) -> int:
    info = await store.jetstream.api(f"STREAM.INFO.KV_{store.config.workers_kv_bucket}")
    return int(info["state"]["messages"])


async def aged(store: Store) -> None:
    """Everything that is there now has not been written for long enough."""

    async def is_old() -> bool:
        written = await store.registry.oldest(500)
        return all(one.at + KEPT_SEC < time.time() for one in written)

    await until(is_old)


@pytest.mark.parametrize("state", ["STOPPED_GRACEFUL", "IDLE", "RUNNING"])
async def test_one_that_stopped_or_was_lost_is_kept_for_a_while_and_then_leaves_nothing(
    store: Store, keeper: GoneWorkers, state: str
) -> None:
    await entered(store, "w.1", state=state)
    assert await keeper.look() == 0
    assert await names(store) == ["w.1"]

    await until(keeper.look)  # nobody has to wake it: it knows when
    assert await names(store) == []
    assert await messages(store) == 0


async def test_nothing_is_read_before_there_is_something_to_do(
    store: Store, keeper: GoneWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await entered(store, "w1")
    await keeper.look()
    reads = 0

    async def counted(_count: int) -> list[Any]:
        nonlocal reads
        reads += 1
        return []

    monkeypatch.setattr(store.registry, "oldest", counted)
    for _ in range(10):
        await keeper.look()
    assert reads == 0


async def test_a_living_worker_stays(store: Store, config: NatsBackendConfig) -> None:
    """However short the history: it writes."""
    keeper = GoneWorkers(store)
    await entered(store, "old")
    async with working(replace(config, worker_heartbeat_interval_sec=0.1), worker_id="lives"):
        await until(keeper.look)
        assert await names(store) == ["lives"]


async def test_one_that_comes_back_in_that_moment_is_not_removed(
    store: Store, keeper: GoneWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await entered(store, "w1")
    await entered(store, "w2")
    await aged(store)
    remove = store.registry.remove

    async def is_back_first(worker_id: str, *, revision: int) -> None:
        if worker_id == "w1":
            await entered(store, "w1", instance_id="new")
        await remove(worker_id, revision=revision)

    monkeypatch.setattr(store.registry, "remove", is_back_first)
    assert await keeper.look() == 1
    [entry] = await store.registry.list()
    assert (entry["worker_id"], entry["instance_id"]) == ("w1", "new")


async def test_one_that_comes_back_right_after_is_whole(
    store: Store, keeper: GoneWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the deletion and the removal of what it leaves."""
    await entered(store, "w1")
    await aged(store)
    clear = store.registry.clear

    async def is_back_first(worker_id: str, *, revision: int) -> None:
        await entered(store, worker_id, instance_id="new")
        await clear(worker_id, revision=revision)

    monkeypatch.setattr(store.registry, "clear", is_back_first)
    assert await keeper.look() == 1
    [entry] = await store.registry.list()
    assert entry["instance_id"] == "new"


async def test_what_a_crash_in_between_has_left_goes_too(store: Store, keeper: GoneWorkers) -> None:
    await entered(store, "w1")
    [written] = await store.registry.oldest(1)
    await store.registry._bucket.delete("w1", revision=written.revision)
    await store.jetstream.publish(f"$KV.{store.config.workers_kv_bucket}.garbage", b"{")
    assert await messages(store) == 2

    async def is_empty() -> bool:
        """They were not written in the same instant, and need not go in the same round."""
        await keeper.look()
        return await messages(store) == 0

    await until(is_empty)


async def test_one_whose_clock_is_ahead_waits_and_holds_up_nobody(store: Store, keeper: GoneWorkers) -> None:
    await entered(store, "ahead", last_seen_at=time.time() + 3600)
    await entered(store, "old")
    await aged(store)
    assert await keeper.look() == 1
    assert await names(store) == ["ahead"]


async def test_many_leave_in_rounds(
    store: Store, keeper: GoneWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gone_workers, "ENTRIES_AT_ONCE", 3)
    await asyncio.gather(*(entered(store, f"w{number}") for number in range(7)))
    await aged(store)
    assert [await keeper.look() for _ in range(3)] == [3, 3, 1]
    assert await messages(store) == 0


async def test_with_0_they_are_kept_for_ever(nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(nats_server, worker_history_sec=0), name="test")
    await entered(store, "w1", state="STOPPED_GRACEFUL")
    await aged(store)
    assert await GoneWorkers(store).look() == 0
    assert await names(store) == ["w1"]
    await store.close()
