"""Whether a worker lives, as a run tells of it."""

from __future__ import annotations

import time

import pytest

from pyoco_server.lifecycle.run import Claim
from pyoco_server.operations.fleet import workers
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store
from tests.store.making import Mishap

CLAIM = Claim(worker_id="w1", instance_id="i1", fence=1, claimed_at=1.0)


@pytest.mark.parametrize(("state", "silent_sec", "alive"), [
    ("RUNNING", 0, True), ("IDLE", 1, True), ("RUNNING", 60, False), ("STOPPED_GRACEFUL", 0, False),
])  # fmt: skip
async def test_a_worker_is_alive_as_its_entry_reads(
    store: Store, state: str, silent_sec: float, alive: bool
) -> None:
    seen_at = time.time() - silent_sec
    entry = {"state": state, "last_seen_at": seen_at, "last_heartbeat_at": seen_at, "tags": ["a"]}
    await store.registry.merge("w1", entry)
    shown = {"worker_alive": alive, "worker_heartbeat_at": seen_at, "worker_tags": ["a"]}
    assert await workers.liveness(store, CLAIM) == shown


async def test_of_a_worker_that_nobody_knows_it_is_said(store: Store) -> None:
    unknown = {"worker_alive": False, "worker_heartbeat_at": None, "worker_tags": None}
    assert await workers.liveness(store, CLAIM) == unknown


async def test_nothing_is_said_when_the_broker_does_not_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mishap(monkeypatch, store, "$JS.API.DIRECT.GET")
    assert await workers.liveness(store, CLAIM) == {}


async def test_another_process_of_the_same_name_does_not_have_the_run(store: Store) -> None:
    """A supervisor starts the worker again under its id before the loss is recorded."""
    entry = {"state": "RUNNING", "last_seen_at": time.time(), "instance_id": "i2", "tags": ["a"]}
    await store.registry.merge("w1", entry)
    assert (await workers.liveness(store, CLAIM))["worker_alive"] is False


async def test_a_worker_whose_lease_is_overdue_is_not_alive_though_its_entry_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"state": "RUNNING", "last_seen_at": time.time(), "instance_id": "i1", "tags": ["a"]}
    await store.registry.merge("w1", entry)
    await store.leases.write("i1", Lease(holder="i1"), revision=0)
    assert (await workers.liveness(store, CLAIM))["worker_alive"] is True
    monkeypatch.setattr(workers, "LEASE_OVERDUE", -1.0)
    assert (await workers.liveness(store, CLAIM))["worker_alive"] is False
