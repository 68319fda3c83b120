"""The worker registry: members belong to different writers, and none loses another's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyoco_server.errors import Unavailable
from pyoco_server.store import registry
from pyoco_server.store.store import Store


async def test_a_worker_that_nobody_knows_is_none(store: Store) -> None:
    assert await store.registry.get("w1") is None


async def test_the_first_entry_is_shown(store: Store) -> None:
    await store.registry.merge("w1", {"state": "IDLE", "tags": ["a"]})
    assert await store.registry.get("w1") == {
        "worker_id": "w1",
        "hidden": False,
        "state": "IDLE",
        "tags": ["a"],
    }


async def test_a_worker_that_registers_again_stays_hidden(store: Store) -> None:
    await store.registry.merge("w1", {"state": "IDLE"})
    await store.registry.merge("w1", {"hidden": True})
    await store.registry.merge("w1", {"state": "RUNNING", "current_run_id": "r"})
    entry = await store.registry.get("w1")
    assert entry == {"worker_id": "w1", "hidden": True, "state": "RUNNING", "current_run_id": "r"}


async def test_changes_made_at_once_all_stay(store: Store, other_store: Store) -> None:
    merges: list[tuple[Store, dict[str, Any]]] = [
        (store, {"hidden": True}),
        (other_store, {"state": "RUNNING"}),
    ]
    merges += [((store, other_store)[n % 2], {f"member_{n}": True}) for n in range(10)]
    await asyncio.gather(*(of.registry.merge("w1", changes) for of, changes in merges))
    entry = await store.registry.get("w1")
    assert entry is not None
    assert entry["hidden"]
    assert entry["state"] == "RUNNING"
    assert all(entry[f"member_{n}"] for n in range(10))


async def test_a_change_that_cannot_get_in_is_not_lost_in_silence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "WRITE_TRIES_MAX", 0)
    with pytest.raises(Unavailable, match="w1"):
        await store.registry.merge("w1", {"hidden": True})


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"[1]", b"{"])
async def test_an_entry_that_cannot_be_read_is_begun_anew(store: Store, garbage: bytes) -> None:
    await store.jetstream.publish(f"$KV.{store.config.workers_kv_bucket}.w1", garbage)
    assert await store.registry.get("w1") is None
    await store.registry.merge("w1", {"state": "IDLE"})
    assert await store.registry.get("w1") == {"worker_id": "w1", "hidden": False, "state": "IDLE"}
