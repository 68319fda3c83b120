"""Snapshots and heartbeats: whoever comes late does not write over what is newer."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from pyoco_server.jetstream.errors import AnswerLost
from pyoco_server.jetstream.kv import NOTHING
from pyoco_server.lifecycle.events import CancelRequested, RunCompleted, RunErased
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.store.runs import stored_run
from pyoco_server.store.runs.log import Overtaken, StoredRun
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.store.making import (
    START,
    Mishap,
    begun,
    claimed,
    committed,
    heartbeat_put_aside,
    purge_log,
    stored_bytes,
    submission,
    tagged,
    tags_of,
)


async def running(store: Store) -> StoredRun:
    born = await begun(store)
    return await store.runs.snapshots.project(await committed(store, born, claimed()))


async def shown(store: Store, stored: StoredRun) -> tuple[str, int, float, float]:
    snapshot = await store.runs.snapshots.get(stored.run.run_id)
    assert snapshot is not None
    return snapshot.status.value, snapshot.pyoco.commits, snapshot.updated_at, snapshot.heartbeat_at


async def test_a_projection_shows_the_commit_and_knows_its_revision(store: Store) -> None:
    after = await running(store)
    assert await shown(store, after) == ("RUNNING", 2, START + 1, START + 1)
    assert (await store.runs.snapshots.bucket.get(after.run.run_id)).revision == after.revision


async def test_an_old_writer_who_comes_late_writes_nothing(store: Store) -> None:
    old = await begun(store)
    newest = await tagged(store, old, "a", "b")
    newest = await store.runs.snapshots.project(newest)
    late = await store.runs.snapshots.project(await committed_before(store, old))
    assert tags_of(await store.runs.load(old.run.run_id)) == ("default", "a", "b")
    assert (await shown(store, old))[1] == 3
    assert late.revision == newest.revision


async def committed_before(store: Store, old: StoredRun) -> StoredRun:
    """What somebody holds who made the second of three commits and was then slow."""
    (_, _), (seq, events), *_ = await store.runs.events(old.run.run_id)
    run = fold(old.run, events)
    assert run is not None
    return replace(old, run=run, commits=2, log_seq=seq)


async def test_writers_in_any_order_leave_the_newest(store: Store) -> None:
    born = await begun(store)
    life = [born]
    for number in range(12):
        life.append(await tagged(store, life[-1], f"t{number}"))
    await asyncio.gather(
        *(store.runs.snapshots.project(replace(s, revision=born.revision)) for s in reversed(life[1:]))
    )
    assert (await shown(store, born))[1] == 13


async def test_a_late_writer_does_not_bring_an_erased_run_back(store: Store) -> None:
    born = await begun(store)
    ended = await committed(store, born, claimed(), RunCompleted(at=START + 2))
    erased = await committed(store, await store.runs.snapshots.project(ended), RunErased(at=START + 3))
    await store.runs.snapshots.project(erased)
    assert await stored_bytes(store, born.run.run_id) is None
    await store.runs.snapshots.project(ended)
    assert await stored_bytes(store, born.run.run_id) is None
    await purge_log(store, born.run.run_id)
    await store.runs.snapshots.project(ended)
    assert await stored_bytes(store, born.run.run_id) is None


async def test_a_lost_answer_to_a_projection_is_the_next_ones_matter(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    after = await tagged(store, born, "a")
    with monkeypatch.context() as patch:
        Mishap(patch, store, "$KV.")
        with pytest.raises(AnswerLost):
            await store.runs.snapshots.project(after)
    again = await store.runs.snapshots.project(await tagged(store, after, "b"))
    assert (await shown(store, born))[1] == 3
    assert again.revision > after.revision


async def test_a_heartbeat_changes_nothing_but_itself(store: Store) -> None:
    at = await running(store)
    before = await stored_bytes(store, at.run.run_id)
    beaten = (await store.runs.snapshots.beat(at, START + 60)).stored
    after = await stored_bytes(store, at.run.run_id)
    assert heartbeat_put_aside(after) == heartbeat_put_aside(before)
    assert await shown(store, at) == ("RUNNING", 2, START + 1, START + 60)
    assert await shown(store, (await store.runs.snapshots.beat(beaten, START + 61)).stored) == (
        "RUNNING",
        2,
        START + 1,
        START + 61,
    )
    assert [seq for seq, _ in await store.runs.events(at.run.run_id)][-1] == at.log_seq


async def test_whoever_loads_a_run_sees_its_heartbeat(store: Store) -> None:
    at = await running(store)
    await store.runs.snapshots.beat(at, START + 60)
    found = await store.runs.load(at.run.run_id)
    assert found is not None
    assert (found.heartbeat_at, found.run.updated_at) == (START + 60, START + 1)


async def test_a_heartbeat_of_a_slow_clock_does_not_go_back(store: Store) -> None:
    at = await running(store)
    await store.runs.snapshots.beat(at, START - 100)
    assert await shown(store, at) == ("RUNNING", 2, START + 1, START + 1)


async def test_heartbeats_do_not_undo_a_cancel_that_their_worker_has_not_heard_of(store: Store) -> None:
    """The first beat yields; the second, knowing the new revision, must not write the old state over it."""
    at = await running(store)
    cancelled = await committed(store, at, CancelRequested(at=START + 5))
    await store.runs.snapshots.project(cancelled)
    beating = at
    for number in range(4):
        beating, is_behind = await store.runs.snapshots.beat(beating, START + 60 + number)
        assert is_behind
        assert await shown(store, at) == ("CANCELLING", 3, START + 5, START + 60 + number)


async def test_a_worker_that_was_taken_over_does_not_beat_for_the_next_one(store: Store) -> None:
    at = await running(store)
    ended = await store.runs.snapshots.project(await committed(store, at, RunCompleted(at=START + 5)))
    await store.runs.snapshots.beat((await store.runs.snapshots.beat(at, START + 60)).stored, START + 61)
    assert await shown(store, at) == ("COMPLETED", 3, START + 5, START + 5)
    erased = await committed(store, ended, RunErased(at=START + 6))
    await store.runs.snapshots.project(erased)
    await store.runs.snapshots.beat((await store.runs.snapshots.beat(at, START + 60)).stored, START + 61)
    assert await stored_bytes(store, at.run.run_id) is None


async def test_a_heartbeat_that_meets_its_own_lost_answer_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await running(store)
    with monkeypatch.context() as patch:
        Mishap(patch, store, "$KV.")
        with pytest.raises(AnswerLost):
            await store.runs.snapshots.beat(at, START + 60)
    again = (await store.runs.snapshots.beat(at, START + 61)).stored
    await store.runs.snapshots.beat(again, START + 62)
    assert (await shown(store, at))[3] == START + 62


async def test_a_creation_over_what_an_earlier_life_left_in_the_bucket_is_shown(store: Store) -> None:
    born = await begun(store)
    ended = await committed(store, born, claimed(), RunCompleted(at=START + 2))
    await store.runs.snapshots.project(
        await committed(store, await store.runs.snapshots.project(ended), RunErased(at=START + 3))
    )
    await purge_log(store, born.run.run_id)
    again = await begun(store, run_id=born.run.run_id, flow_name="second")
    assert (await shown(store, again))[:2] == ("PENDING", 1)
    assert again.revision == (await store.runs.snapshots.bucket.get(born.run.run_id)).revision


async def test_an_erased_run_leaves_one_mark_that_will_vanish(store: Store) -> None:
    born = await begun(store)
    ended = await committed(store, await tagged(store, born, "a", "b"), claimed(), RunCompleted(at=START + 2))
    erased = await committed(store, ended, RunErased(at=START + 3, by="op"))
    subject = f"{store.config.events_subject_prefix}.{born.run.run_id}"
    (mark,) = await store.jetstream.after(store.config.events_stream, subject, 0)
    assert (mark.header(b"Nats-TTL"), mark.header(b"Nats-Rollup")) == ("48h", "sub")
    assert mark.seq == erased.log_seq
    assert erased.run.gone


async def test_an_erased_run_is_gone_whether_or_not_its_snapshot_is(store: Store) -> None:
    born = await begun(store)
    ended = await store.runs.snapshots.project(
        await committed(store, born, claimed(), RunCompleted(at=START + 2))
    )
    erased = await committed(store, ended, RunErased(at=START + 3))
    for at_leader in (False, True):
        found = await store.runs.load(born.run.run_id, at_leader=at_leader)
        assert found is not None
        assert found.run.gone
    await store.runs.snapshots.project(erased)
    assert await store.runs.load(born.run.run_id) is None
    assert await store.runs.load(born.run.run_id, at_leader=True) is None


async def test_a_reader_removes_the_snapshot_that_an_erased_run_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_run, "HEAL_AFTER_SEC", 0.0)
    born = await begun(store)
    ended = await store.runs.snapshots.project(
        await committed(store, born, claimed(), RunCompleted(at=START + 2))
    )
    await committed(store, ended, RunErased(at=START + 3))
    await store.runs.load(born.run.run_id)

    async def is_removed() -> bool:
        """Without a mark of the deletion."""
        return await store.runs.snapshots.bucket.get_at_leader(born.run.run_id) == NOTHING

    await until(is_removed)
    await store.runs.load(born.run.run_id)
    assert not store.runs.snapshots._healing


async def test_an_erased_id_is_taken_while_its_mark_lives_and_free_after(store: Store) -> None:
    born = await begun(store)
    run_id = born.run.run_id
    ended = await committed(store, born, claimed(), RunCompleted(at=START + 2))
    await store.runs.snapshots.project(await committed(store, ended, RunErased(at=START + 3)))
    with pytest.raises(Overtaken) as overtaken:
        await store.runs.create(submission(run_id), "again")
    assert overtaken.value.now is None
    await purge_log(store, run_id)
    revived = await store.runs.append(None, [submission(run_id, flow_name="second")], "again")
    assert (revived.commits, revived.run.flow_name) == (1, "second")
    after = await store.runs.snapshots.project(await tagged(store, revived, "alive"))
    found = await store.runs.load(run_id)
    assert found is not None
    assert (found.run, found.commits, found.revision) == (after.run, 2, after.revision)
