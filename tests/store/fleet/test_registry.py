"""The worker registry: members belong to different writers, and none loses another's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.store.fleet import registry
from pyoco_server.store.fleet.registry import NOTHING_YET, WorkerState, state_when_read
from pyoco_server.store.store import Store


async def test_a_worker_that_nobody_knows_is_none(store: Store) -> None:
    assert await store.registry.get("w1") is None


async def test_the_first_entry_is_shown(store: Store) -> None:
    await store.registry.merge("w1", {"state": "IDLE", "tags": ["a"]})
    entry = await store.registry.get("w1")
    assert entry == {**NOTHING_YET, "worker_id": "w1", "hidden": False, "state": "IDLE", "tags": ["a"]}


async def test_a_worker_that_registers_again_stays_hidden(store: Store) -> None:
    await store.registry.merge("w1", {"state": "IDLE"})
    await store.registry.merge("w1", {"hidden": True})
    await store.registry.merge("w1", {"state": "RUNNING", "current_run_id": "r"})
    entry = await store.registry.get("w1")
    changed = {"worker_id": "w1", "hidden": True, "state": "RUNNING", "current_run_id": "r"}
    assert entry == {**NOTHING_YET, **changed}


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
    assert await store.registry.get("w1") == {**NOTHING_YET, "worker_id": "w1", "state": "IDLE"}


async def test_all_entries_are_listed_by_their_keys(store: Store) -> None:
    for worker_id in ("w1", "w.2", "w3"):
        await store.registry.merge(worker_id, {"state": "IDLE"})
    await store.registry.merge("w1", {"state": "RUNNING", "worker_id": "somebody else"})
    await store.jetstream.publish(f"$KV.{store.config.workers_kv_bucket}.w4", b"garbage")
    listed = {entry["worker_id"]: entry["state"] for entry in await store.registry.list()}
    assert listed == {"w.2": "IDLE", "w3": "IDLE", "w1": "RUNNING"}


async def test_those_written_since_an_instant_are_listed_without_the_others(store: Store) -> None:
    await store.registry.merge("old", {"state": "IDLE"})
    await asyncio.sleep(0.05)
    since = time.time()
    assert await store.registry.list(written_since=since) == []
    await asyncio.gather(*(store.registry.merge(f"w{n}", {"number": n}) for n in range(260)))
    listed = await store.registry.list(written_since=since)
    assert {entry["number"] for entry in listed} == set(range(260))
    assert len(listed) == 260


async def test_only_an_entry_that_is_there_is_changed_if_so_wanted(store: Store) -> None:
    with pytest.raises(NotFound) as refused:
        await store.registry.change("w1", lambda _: {"hidden": True})
    assert refused.value.err_id == "ERR-PYOCO-0020"
    assert await store.registry.list() == []
    await store.registry.merge("w1", {"state": "IDLE"})
    await store.registry.change("w1", lambda entry: {"hidden": entry["state"] == "IDLE"})
    assert (await store.registry.list())[0]["hidden"] is True


TIMEOUT_SEC = 20.0


@pytest.mark.parametrize(
    ("written", "silent_sec", "read"),
    [
        ("RUNNING", 0.0, WorkerState.RUNNING),
        ("IDLE", TIMEOUT_SEC, WorkerState.IDLE),
        ("IDLE", -5.0, WorkerState.IDLE),  # its clock is ahead of ours
        ("RUNNING", TIMEOUT_SEC + 0.1, WorkerState.DISCONNECTED),
        ("IDLE", 3600.0, WorkerState.DISCONNECTED),
        ("STOPPED_GRACEFUL", 0.0, WorkerState.STOPPED_GRACEFUL),
        ("STOPPED_GRACEFUL", 3600.0, WorkerState.STOPPED_GRACEFUL),
        ("DISCONNECTED", 0.0, WorkerState.DISCONNECTED),
        ("of another kind", 0.0, WorkerState.DISCONNECTED),
        (None, 0.0, WorkerState.DISCONNECTED),
    ],
)
def test_the_state_that_is_read_is_derived_from_silence_unless_it_said_goodbye(
    written: str | None, silent_sec: float, read: WorkerState
) -> None:
    entry = {"state": written, "last_seen_at": 1000.0}
    assert state_when_read(entry, 1000.0 + silent_sec, TIMEOUT_SEC) is read


@pytest.mark.parametrize("last_seen_at", [{}, {"last_seen_at": None}, {"last_seen_at": "soon"}])
def test_a_worker_that_never_said_when_it_was_seen_is_disconnected(last_seen_at: dict[str, Any]) -> None:
    assert state_when_read({"state": "IDLE"} | last_seen_at, 0.0, TIMEOUT_SEC) is WorkerState.DISCONNECTED
    stopped = {"state": "STOPPED_GRACEFUL"} | last_seen_at
    assert state_when_read(stopped, 0.0, TIMEOUT_SEC) is WorkerState.STOPPED_GRACEFUL
