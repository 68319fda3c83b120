"""Snapshots that are not waited for: the last one stands, whoever else writes, and none goes back."""

from __future__ import annotations

import asyncio

from pyoco_server.lifecycle.commands import AddTag, CancelRun
from pyoco_server.operations.executions.snapshot_coalescer import SnapshotCoalescer
from pyoco_server.operations.runs.apply import Reading, apply
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import until


async def _begun(store: Store) -> StoredRun:
    return await submit(store, Submission(flow_name="f"))


async def _tagged(store: Store, stored: StoredRun, number: int) -> StoredRun:
    asked = AddTag(tag=f"t{number}", tags_max=99)
    applied = await apply(store, stored.run.run_id, asked, project=False, reading=Reading(held=stored))
    assert applied.after is not None
    return applied.after


async def _commits(store: Store, stored: StoredRun) -> int:
    snapshot = await store.runs.snapshots.get(stored.run.run_id)
    assert snapshot is not None
    return snapshot.pyoco.commits


async def test_of_many_commits_few_are_written_and_the_last_one_stands(store: Store) -> None:
    stored = await _begun(store)
    soon = SnapshotCoalescer(store)
    for number in range(30):
        stored = await _tagged(store, stored, number)
        await soon.project(stored)
    await soon.close()
    assert await _commits(store, stored) == 31
    written = await store.jetstream.last_at_leader(
        f"KV_{store.config.runs_kv_bucket}", f"$KV.{store.config.runs_kv_bucket}.{stored.run.run_id}"
    )
    assert written is not None
    assert written.seq < 30


async def test_an_end_is_written_without_a_pause(store: Store) -> None:
    stored = await _begun(store)
    soon = SnapshotCoalescer(store)
    await soon.project(await _tagged(store, stored, 1))
    ended = await apply(store, stored.run.run_id, CancelRun(), project=False)
    assert ended.after is not None
    await soon.project(ended.after)

    async def is_written() -> bool:
        return await _commits(store, stored) == 3

    await until(is_written)
    await soon.close()
    await soon.close()


async def test_an_older_one_never_follows_a_newer_one(store: Store) -> None:
    first = await _begun(store)
    second = await _tagged(store, first, 1)
    third = await _tagged(store, second, 2)
    soon = SnapshotCoalescer(store)
    await soon.project(third)
    await soon.project(second)
    await soon.close()
    await soon.project(second)
    await soon.close()
    assert await _commits(store, first) == 3


async def test_what_another_gateway_wrote_meanwhile_is_not_undone(store: Store) -> None:
    here, there = SnapshotCoalescer(store), SnapshotCoalescer(store)
    stored = await _begun(store)
    history = [stored := await _tagged(store, stored, number) for number in range(20)]
    for number, one in enumerate(history):
        await (here if number % 2 else there).project(one)
        await asyncio.sleep(0.002)
    # One that was committed long ago comes last, through a gateway that has lost against the other.
    await here.close()
    await there.close()
    await there.project(history[4])
    await there.close()
    assert await _commits(store, stored) == 21
