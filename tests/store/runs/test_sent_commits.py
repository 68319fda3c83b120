"""Which sequences prove that a commit was stored after a moment."""

from __future__ import annotations

from pyoco_server.store.runs.sent_commits import KEPT_MAX, SentCommits
from pyoco_server.store.store import Store
from tests.store.making import begun


def test_only_a_commit_that_was_sent_after_the_mark_proves_anything() -> None:
    sent = SentCommits()
    early = sent.send()
    mark = sent.mark()
    sent.store(early, 7)
    assert sent.stored_after(mark) is None
    assert not sent.has_sent_after(mark)
    late = sent.send()
    assert sent.has_sent_after(mark)
    assert sent.stored_after(mark) is None
    sent.store(late, 9)
    assert sent.stored_after(mark) == 9


def test_the_smallest_of_several_sequences_counts() -> None:
    sent = SentCommits()
    mark = sent.mark()
    first, second = sent.send(), sent.send()
    sent.store(second, 12)
    sent.store(first, 11)
    assert sent.stored_after(mark) == 11


def test_nothing_is_proved_across_connections() -> None:
    sent = SentCommits()
    mark = sent.mark()
    in_flight = sent.send()
    sent.store(sent.send(), 5)
    sent.forget()
    sent.store(in_flight, 6)
    assert sent.stored_after(mark) is None
    assert not sent.is_same_connection(mark)
    after = sent.mark()
    sent.store(sent.send(), 3)
    assert sent.stored_after(after) == 3


def test_a_limited_number_is_kept() -> None:
    sent = SentCommits()
    mark = sent.mark()
    for seq in range(1, KEPT_MAX + 11):
        sent.store(sent.send(), seq)
    assert sent.stored_after(mark) == 11


async def test_every_commit_of_a_store_is_noted(store: Store) -> None:
    mark = store.runs.sent_commits.mark()
    born = await begun(store)
    assert store.runs.sent_commits.stored_after(mark) == born.log_seq


async def test_the_last_message_is_that_of_any_run(store: Store) -> None:
    await begun(store)
    born = await begun(store)
    for at_leader in (False, True):
        last = await store.runs.last_message(at_leader=at_leader)
        assert last is not None
        assert (last.seq, last.stored_at_ns is not None) == (born.log_seq, True)
