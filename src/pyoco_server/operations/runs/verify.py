"""Verify the log and the snapshot of a run. Compares; repairs nothing.

Three checks: the hash of each commit follows from the commit before, no number is missing, and the folded log
equals the stored snapshot (except for `heartbeat_at`, and for what a snapshot may leave out if it was written
under another limit). A commit without a hash is counted and is not a problem: it is older than the chain, or
from another producer. A snapshot may be behind for a short time, until it is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from pyoco_server import clock
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import RunSnapshot, lack_for, run_of, snapshot_of
from pyoco_server.store.runs.log import Commit
from pyoco_server.store.store import Store

SIDE_BY_SIDE = 8
BEHIND_SEC_MAX = 10.0
_POSITIONS = ("commits", "log_seq")
# What a snapshot may leave out, and the members that say so. They depend on the limit when it was written.
_BY_LIMIT = ("tasks", "task_records", "tasks_truncated", "task_records_truncated", "pyoco")


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """`head`: the hash of the last commit. `unchained`: how many commits have no hash."""

    ok: bool
    commits: int
    head: str
    problems: list[str]
    unchained: int = 0


async def verify(store: Store, run_id: str) -> Verified | None:
    """None if there is no such run. The snapshot is read before the log, so it can only be behind."""
    snapshot = await store.runs.snapshots.get(run_id)
    commits = await store.runs.history(run_id, at_leader=True)
    if not commits and snapshot is None:
        return None
    max_bytes = store.config.max_run_snapshot_bytes
    problems = [*_log_problems(commits), *_snapshot_problems(snapshot, commits, max_bytes)]
    return Verified(
        ok=not problems,
        commits=len(commits),
        head=commits[-1].chain if commits else "",
        problems=problems,
        unchained=sum(not commit.chain for commit in commits),
    )


async def verify_all(store: Store) -> AsyncIterator[tuple[str, Verified]]:
    """Every run that has a log, a few at a time."""
    batch: list[str] = []
    async for run_id in store.runs.ids():
        batch.append(run_id)
        if len(batch) == SIDE_BY_SIDE:
            for one in await _verify(store, batch):
                yield one
            batch = []
    for one in await _verify(store, batch):
        yield one


async def _verify(store: Store, run_ids: Sequence[str]) -> list[tuple[str, Verified]]:
    found = await asyncio.gather(*(verify(store, run_id) for run_id in run_ids))
    return [(run_id, one) for run_id, one in zip(run_ids, found, strict=True) if one is not None]


def _log_problems(commits: Sequence[Commit]) -> Iterator[str]:
    """Of an erased run only the mark is left, with any number."""
    expected = commits[0].number if _is_mark(commits) else 1
    for commit in commits:
        number = commit.number or expected  # commits of other producers have none
        if number != expected:
            yield f"commit {number}: commit {expected} should stand there"
        if commit.chain_holds is False:
            yield f"commit {number}: its chain does not follow from what stands before it"
        expected = number + 1


def _is_mark(commits: Sequence[Commit]) -> bool:
    return len(commits) == 1 and fold(None, commits[0].events) is None


def _snapshot_problems(
    snapshot: RunSnapshot | None, commits: Sequence[Commit], max_bytes: int
) -> Iterator[str]:
    if not commits:
        yield "there is a snapshot, but no log"
        return
    run = _folded(commits)
    if snapshot is None:
        if run is not None and not run.gone:
            yield "the snapshot is missing"
        return
    if run is None or run.gone:
        yield "the run is erased, but its snapshot is there"
        return
    yield from _compare(snapshot, commits, max_bytes)


def _compare(snapshot: RunSnapshot, commits: Sequence[Commit], max_bytes: int) -> Iterator[str]:
    """Compares with the part of the log that the snapshot contains."""
    known = snapshot.pyoco.commits
    behind = len(commits) - known
    if behind < 0 or known == 0 or (behind and clock.now() - commits[-1].at > BEHIND_SEC_MAX):
        yield f"commits: the snapshot has {known}, the log {len(commits)}"
    upto = commits[:known] if 0 < known <= len(commits) else commits
    log_seq = snapshot.pyoco.log_seq
    if log_seq not in (0, upto[-1].log_seq):  # the first snapshot is written beside its commit
        yield f"log_seq: the snapshot has {log_seq}, the log says {upto[-1].log_seq}"
    run = _folded(upto)
    if run is not None:
        expected = _plain(snapshot_of(run, max_bytes=max_bytes))
        if not _is_of_this_limit(snapshot, max_bytes):
            expected = {name: value for name, value in expected.items() if name not in _BY_LIMIT}
        yield from _members_that_differ(_plain(snapshot), expected)


def _is_of_this_limit(snapshot: RunSnapshot, max_bytes: int) -> bool:
    """False for a snapshot of a version that measured differently, or of a time with another limit."""
    if snapshot.pyoco.sizes is None:
        return False
    return lack_for(run_of(snapshot), max_bytes) is snapshot.pyoco.lacks


def _folded(commits: Sequence[Commit]) -> Run | None:
    return fold(None, [event for commit in commits for event in commit.events])


def _plain(snapshot: RunSnapshot) -> dict[str, object]:
    """Without heartbeats, which are not in the log, and without positions, which were compared before."""
    members: dict[str, object] = msgspec.to_builtins(snapshot)
    del members["heartbeat_at"]
    core: dict[str, object] = msgspec.to_builtins(snapshot.pyoco)
    members["pyoco"] = {name: value for name, value in core.items() if name not in _POSITIONS}
    return members


def _members_that_differ(stored: dict[str, object], expected: dict[str, object]) -> Iterator[str]:
    for name, value in expected.items():
        if stored.get(name) != value:
            yield f"{name}: the snapshot has {_short(stored.get(name))}, the log says {_short(value)}"


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
