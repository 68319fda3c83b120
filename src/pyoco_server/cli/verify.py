"""Does a stored snapshot say what the log says? Compares; mends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import RunSnapshot, snapshot_of
from pyoco_server.store.store import Store

Commits = Sequence[tuple[int, list[Event]]]


async def differences(store: Store, run_id: str) -> list[str] | None:
    """One line per difference; None without such a run. The snapshot is read first: it may only lag."""
    snapshot = await store.runs.snapshot(run_id)
    commits = await store.runs.events(run_id)
    if not commits:
        return None if snapshot is None else ["there is a snapshot, but no log"]
    return list(_compare(snapshot, commits, store.config.max_run_snapshot_bytes))


def _compare(snapshot: RunSnapshot | None, commits: Commits, max_bytes: int) -> Iterator[str]:
    run = fold(None, [event for _, events in commits for event in events])
    assert run is not None, "a log that is not empty begins a run"
    if snapshot is None or run.gone:
        if (snapshot is None) != run.gone:
            yield (
                "the snapshot is missing"
                if snapshot is None
                else "the run is erased, but its snapshot is there"
            )
        return
    if snapshot.pyoco.commits != len(commits):
        yield f"commits: the snapshot has {snapshot.pyoco.commits}, the log {len(commits)}"
    expected = snapshot_of(run, max_bytes=max_bytes, commits=len(commits), log_seq=commits[-1][0])
    yield from _members_that_differ(_compared(snapshot), _compared(expected))


def _compared(snapshot: RunSnapshot) -> dict[str, Any]:
    """Without heartbeats, which are no history, and without positions, which the first snapshot lacks."""
    members: dict[str, Any] = msgspec.to_builtins(snapshot)
    del members["heartbeat_at"]
    members["pyoco"] = {
        name: value for name, value in members["pyoco"].items() if name not in ("commits", "log_seq")
    }
    return members


def _members_that_differ(stored: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    for name, value in expected.items():
        if stored.get(name) != value:
            yield f"{name}: the snapshot has {_short(stored.get(name))}, the log says {_short(value)}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
