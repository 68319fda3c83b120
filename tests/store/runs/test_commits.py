"""Commits as readers get them: their number and id, who asked, when, and the chain from one to the next."""

from __future__ import annotations

import time
from hashlib import sha256

import pytest

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.lifecycle.events import TagAdded
from pyoco_server.store.runs.codec import decode_commit_meta, encode_commit
from pyoco_server.store.runs.log import Overtaken, StoredRun, new_commit_id
from pyoco_server.store.store import Store
from tests.store.making import START, begun, committed, submission, tagged

ANN = CommitMeta(actor=Actor(ActorKind.USER, "ann"), correlation_id="c-1", causation_id="k-1")


async def messages(store: Store, run_id: str) -> list[StoredMessage]:
    subject = f"{store.config.events_subject_prefix}.{run_id}"
    return await store.jetstream.after(store.config.events_stream, subject, 0)


async def unchained(store: Store, at: StoredRun, tag: str) -> int:
    """A commit as the first version wrote it."""
    headers = (
        f"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: {at.log_seq}\r\n"
        f"Pyoco-Commit: {new_commit_id()}\r\nPyoco-Commit-No: {at.commits + 1}\r\n\r\n"
    )
    subject = f"{store.config.events_subject_prefix}.{at.run.run_id}"
    data = encode_commit([TagAdded(at=START, tag=tag)])
    return (await store.jetstream.publish(subject, data, headers.encode())).seq


async def test_each_commit_is_tied_to_the_one_before(store: Store, other_store: Store) -> None:
    born = await begun(store)
    run_id = born.run.run_id
    await tagged(store, born, "x", "y")
    theirs = await other_store.runs.load(run_id)
    assert theirs is not None
    last = await tagged(other_store, theirs, "z")
    chain = ""
    for message in await messages(store, run_id):
        chain = sha256(chain.encode() + message.data).hexdigest()
        assert message.header(b"Pyoco-Chain") == chain
    assert last.chain == chain
    assert [commit.chain_holds for commit in await store.runs.history(run_id)] == [True] * 4


async def test_whoever_was_overtaken_goes_on_with_the_chain_they_find(store: Store) -> None:
    born = await begun(store)
    await tagged(store, born, "first")
    with pytest.raises(Overtaken) as overtaken:
        await tagged(store, born, "mine")
    assert overtaken.value.now is not None
    await tagged(store, overtaken.value.now, "mine")
    history = await store.runs.history(born.run.run_id)
    assert [commit.chain_holds for commit in history] == [True] * 3


async def test_after_commits_without_a_chain_a_new_one_begins(store: Store) -> None:
    born = await begun(store)
    run_id = born.run.run_id
    await unchained(store, born, "old")
    found = await store.runs.load(run_id)
    assert found is not None
    assert found.chain == ""
    await tagged(store, found, "new", "newer")
    history = await store.runs.history(run_id)
    assert [commit.chain_holds for commit in history] == [True, None, True, True]
    assert history[2].chain == sha256((await messages(store, run_id))[2].data).hexdigest()


async def test_one_who_does_not_know_the_chain_commits_without(store: Store) -> None:
    born = await begun(store)
    blind = StoredRun(run=born.run, commits=1, log_seq=born.log_seq, revision=born.revision)
    after = await committed(store, blind, TagAdded(at=START, tag="x"))
    assert (blind.chain, after.chain) == (None, "")
    await tagged(store, after, "y")
    holds = [commit.chain_holds for commit in await store.runs.history(born.run.run_id)]
    assert holds == [True, None, True]


async def test_a_commit_says_who_asked_and_when_it_was_stored(store: Store) -> None:
    event = submission()
    born = await store.runs.create(event, "c1", meta=ANN)
    await store.runs.append(born, [TagAdded(at=START, tag="x")], "c2")
    first, second = await store.runs.history(event.run_id)
    assert (first.number, first.commit_id, first.log_seq, first.meta) == (1, "c1", born.log_seq, ANN)
    assert (second.number, second.commit_id, second.meta) == (2, "c2", None)
    assert first.events == [event]
    assert abs(time.time() - first.at) < 60
    assert second.at >= first.at


async def test_the_leader_tells_the_same_as_any_replica(store: Store) -> None:
    born = await begun(store)
    await tagged(store, born, "x", "y")
    anywhere = await store.runs.history(born.run.run_id)
    subject = f"{store.config.events_subject_prefix}.{born.run.run_id}"
    stored = await store.jetstream.after_at_leader(store.config.events_stream, subject, 0)
    assert [message.time is not None for message in stored] == [True] * 3
    assert await store.runs.history(born.run.run_id, at_leader=True) == anywhere


async def test_history_goes_on_from_a_place(store: Store) -> None:
    born = await begun(store)
    last = await tagged(store, born, "x", "y")
    later = await store.runs.history(born.run.run_id, born.log_seq)
    assert [commit.number for commit in later] == [2, 3]
    assert [commit.chain_holds for commit in later] == [None, True]
    assert await store.runs.history(born.run.run_id, last.log_seq, at_leader=True) == []
    assert await store.runs.history("a.b") == []


async def test_a_commit_is_found_by_its_id(store: Store) -> None:
    born = await begun(store)
    run_id = born.run.run_id
    await store.runs.append(born, [TagAdded(at=START, tag="x")], "mine", meta=ANN)
    found = await store.runs.find_commit(run_id, "mine")
    assert found is not None
    assert (found.number, found.meta) == (2, ANN)
    assert await store.runs.find_commit(run_id, "other") is None
    assert await store.runs.find_commit("nobody", "mine") is None


async def test_every_run_with_a_log_is_named(store: Store) -> None:
    born = {(await begun(store)).run.run_id for _ in range(5)}
    assert {run_id async for run_id in store.runs.ids()} == born


def test_what_is_said_of_who_asked_may_be_anything_and_is_then_nothing() -> None:
    assert decode_commit_meta(b'{"events":[],"v":1,"actor":{"kind":"robot"}}') is None
    assert decode_commit_meta(b"not json") is None
    assert decode_commit_meta(encode_commit([], ANN)) == ANN
