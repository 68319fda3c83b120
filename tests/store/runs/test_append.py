"""Commits: at the sequence they were decided on, once, whatever becomes of the answer."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from pyoco_server.jetstream.errors import AnswerLost
from pyoco_server.lifecycle.events import CancelRequested, TagAdded
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.store.runs.codec import encode_snapshot
from pyoco_server.store.runs.log import Overtaken, new_commit_id
from pyoco_server.store.store import Store
from tests.store.making import (
    START,
    Mishap,
    begun,
    claimed,
    committed,
    purge_log,
    put_bytes,
    stored_bytes,
    submission,
    tagged,
    tags_of,
)

REQUIRED = {"run_id", "flow_name", "status", "params", "tasks", "heartbeat_at", "updated_at"}
RECOMMENDED = {
    "tag",
    "tags",
    "worker_id",
    "task_records",
    "task_records_truncated",
    "start_time",
    "end_time",
    "error",
    "cancel_requested_at",
    "cancel_requested_by",
}


def added(tag: str) -> TagAdded:
    return TagAdded(at=START + 5, tag=tag)


async def commit_ids(store: Store, run_id: str) -> list[str | None]:
    subject = f"{store.config.events_subject_prefix}.{run_id}"
    messages = await store.jetstream.after(store.config.events_stream, subject, 0)
    return [message.header(b"Pyoco-Commit") for message in messages]


async def test_a_creation_writes_the_first_commit_and_the_first_snapshot(store: Store) -> None:
    event = submission()
    born = await store.runs.create(event, "c1")
    assert await store.runs.events(event.run_id) == [(born.log_seq, [event])]
    assert await store.runs.submission(event.run_id) == event
    assert (born.commits, born.run) == (1, fold(None, [event]))
    data = await stored_bytes(store, event.run_id)
    assert data == encode_snapshot(snapshot_of(born.run, max_bytes=262_144, commits=1))


async def test_the_first_snapshot_has_the_members_of_the_contract(store: Store) -> None:
    born = await begun(store)
    data = await stored_bytes(store, born.run.run_id)
    assert data is not None
    snapshot = msgspec.json.decode(data)
    assert set(snapshot) >= REQUIRED | RECOMMENDED
    assert (snapshot["status"], snapshot["params"], snapshot["tasks"]) == (
        "PENDING",
        {"name": "Ada", "n": 3},
        {},
    )
    assert snapshot["heartbeat_at"] == snapshot["updated_at"] == START
    assert (snapshot["tag"], snapshot["tags"], snapshot["worker_id"]) == ("default", ["default"], None)


async def test_an_id_is_taken_once(store: Store) -> None:
    born = await begun(store)
    with pytest.raises(Overtaken) as overtaken:
        await begun(store, run_id=born.run.run_id, flow_name="other")
    assert overtaken.value.now is not None
    assert overtaken.value.now.run == born.run


async def test_of_two_who_begin_the_same_run_one_wins_in_the_log_and_in_the_bucket(store: Store) -> None:
    """The loser's snapshot may have been the first in the bucket: it must not stay."""
    for number in range(20):
        run_id = submission().run_id
        ends = await asyncio.gather(
            *(begun(store, run_id=run_id, flow_name=f"flow-{n}", at=START + n) for n in range(4)),
            return_exceptions=True,
        )
        (winner,) = [end for end in ends if not isinstance(end, BaseException)]
        found = await store.runs.load(run_id)
        assert found is not None, number
        assert (found.run, found.commits, found.log_seq) == (winner.run, 1, winner.log_seq)
        snapshot = await store.runs.snapshots.get(run_id)
        assert snapshot is not None
        assert snapshot.flow_name == winner.run.flow_name


async def test_the_snapshot_of_one_who_lost_does_not_stay_though_it_was_first(store: Store) -> None:
    """Its commit was refused, its snapshot was not: the winner finds it in his place."""
    run_id = submission().run_id
    loser = fold(None, [submission(run_id, flow_name="loser")])
    assert loser is not None
    await put_bytes(store, run_id, encode_snapshot(snapshot_of(loser, max_bytes=262_144, commits=1)))
    winner = await begun(store, run_id=run_id)
    snapshot = await store.runs.snapshots.get(run_id)
    assert snapshot is not None
    assert (snapshot.flow_name, snapshot.pyoco.log_seq) == ("greet", winner.log_seq)


async def test_a_commit_at_the_known_place_succeeds(store: Store) -> None:
    born = await begun(store)
    after = await committed(store, born, claimed())
    assert (after.commits, after.run.status) == (2, "RUNNING")
    assert after.log_seq > born.log_seq
    assert after.revision == born.revision


async def test_a_commit_at_a_stale_place_is_overtaken_and_shown_the_newer_state(store: Store) -> None:
    born = await begun(store)
    newer = await tagged(store, born, "a", "b", "c")
    with pytest.raises(Overtaken) as overtaken:
        await committed(store, born, claimed())
    now = overtaken.value.now
    assert now is not None
    assert (now.run, now.commits, now.log_seq) == (newer.run, newer.commits, newer.log_seq)
    assert [seq for seq, _ in await store.runs.events(born.run.run_id)][-1] == newer.log_seq


async def test_two_writers_race_and_exactly_one_wins_each_sequence(store: Store, other_store: Store) -> None:
    one, two = store, other_store
    at = await begun(one)
    for number in range(50):
        ends = await asyncio.gather(
            committed(one, at, added(f"one-{number}")),
            committed(two, at, added(f"two-{number}")),
            return_exceptions=True,
        )
        won = [end for end in ends if not isinstance(end, BaseException)]
        lost = [end for end in ends if isinstance(end, Overtaken)]
        assert (len(won), len(lost)) == (1, 1)
        assert lost[0].now is not None
        assert (lost[0].now.run, lost[0].now.log_seq) == (won[0].run, won[0].log_seq)
        at = won[0]
    assert len(at.run.tags) == 51
    assert at.commits == len(await one.runs.events(at.run.run_id)) == 51


async def test_a_commit_whose_answer_was_lost_is_found_again_and_counted_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    mishap = Mishap(monkeypatch, store, store.config.events_subject_prefix)
    after = await store.runs.append(born, [added("x")], "mine")
    assert len(mishap.subjects) == 2
    assert (after.commits, tags_of(after)) == (2, ("default", "x"))
    assert (await commit_ids(store, born.run.run_id))[1:] == ["mine"]


async def test_a_commit_that_never_arrived_is_sent_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    Mishap(monkeypatch, store, store.config.events_subject_prefix, times=2, sent=False)
    after = await store.runs.append(born, [added("x")], "mine")
    assert (after.commits, tags_of(after)) == (2, ("default", "x"))
    assert (await commit_ids(store, born.run.run_id))[1:] == ["mine"]


async def test_a_broker_that_never_answers_is_not_guessed_about(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    mishap = Mishap(monkeypatch, store, store.config.events_subject_prefix, times=99, sent=False)
    with pytest.raises(AnswerLost):
        await store.runs.append(born, [added("x")], "mine")
    assert len(mishap.subjects) == 3


async def test_a_commit_is_found_again_also_when_somebody_committed_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    mine = await store.runs.append(born, [added("mine")], "mine")
    await tagged(store, mine, "theirs", "more")
    again = await store.runs.append(born, [added("mine")], "mine")
    assert tags_of(again) == ("default", "mine", "theirs", "more")
    assert again.commits == 4
    assert len(await commit_ids(store, born.run.run_id)) == 4


async def test_a_commit_is_found_again_also_when_somebody_committed_before_it(store: Store) -> None:
    """Overtaken, decided anew, committed, answer lost; then asked again from the old place."""
    born = await begun(store)
    theirs = await committed(store, born, CancelRequested(at=START + 3, by="them"))
    await store.runs.append(theirs, [added("mine")], "mine")
    again = await store.runs.append(born, [added("mine")], "mine")
    assert again.run.cancel is not None
    assert (again.commits, tags_of(again)) == (3, ("default", "mine"))
    assert (await tagged(store, again, "next")).commits == 4
    found = await store.runs.load(born.run.run_id)
    assert tags_of(found) == ("default", "mine", "next")


async def test_the_same_creation_may_be_asked_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    event = submission()
    Mishap(monkeypatch, store, store.config.events_subject_prefix)
    born = await store.runs.create(event, "c1")
    assert born.commits == 1
    assert await commit_ids(store, event.run_id) == ["c1"]


async def test_whoever_stands_on_what_the_log_has_lost_is_told_what_is_there(store: Store) -> None:
    """The broker was set back, or the run erased and its mark gone: asking on would never end."""
    born = await begun(store)
    newer = await tagged(store, born, "a")
    ahead = msgspec.structs.replace(newer, log_seq=newer.log_seq + 100, commits=3)
    with pytest.raises(Overtaken) as overtaken:
        await committed(store, ahead, added("b"))
    assert overtaken.value.now is not None
    assert (overtaken.value.now.commits, overtaken.value.now.log_seq) == (2, newer.log_seq)
    await purge_log(store, born.run.run_id)
    with pytest.raises(Overtaken) as overtaken:
        await committed(store, newer, added("b"))
    assert overtaken.value.now is None


async def test_a_stray_message_in_the_log_does_not_block_its_run(store: Store) -> None:
    born = await begun(store)
    await store.jetstream.publish(f"{store.config.events_subject_prefix}.{born.run.run_id}", b"hello?")
    with pytest.raises(Overtaken) as overtaken:
        await committed(store, born, added("x"))
    assert overtaken.value.now is not None
    after = await committed(store, overtaken.value.now, added("x"))
    found = await store.runs.load(born.run.run_id)
    assert found is not None
    assert (found.run, found.commits, found.log_seq) == (after.run, after.commits, after.log_seq)


def test_commit_ids_differ() -> None:
    assert len({new_commit_id() for _ in range(1_000)}) == 1_000
