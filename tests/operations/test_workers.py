"""Whether a worker lives, as a run tells of it."""

from __future__ import annotations

import time

import pytest

from pyoco_server.operations import workers
from pyoco_server.store.store import Store
from tests.store.making import Mishap


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
    assert await workers.liveness(store, "w1") == shown


async def test_of_a_worker_that_nobody_knows_it_is_said(store: Store) -> None:
    unknown = {"worker_alive": False, "worker_heartbeat_at": None, "worker_tags": None}
    assert await workers.liveness(store, "w1") == unknown


async def test_nothing_is_said_when_the_broker_does_not_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mishap(monkeypatch, store, "$JS.API.DIRECT.GET")
    assert await workers.liveness(store, "w1") == {}
