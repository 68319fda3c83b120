"""Publishing at an expected sequence, and the two kinds of reading."""

from __future__ import annotations

import pytest

from pyoco_server.jetstream.api import BATCH_MAX
from pyoco_server.jetstream.errors import BrokerRefused, WrongSequence
from pyoco_server.jetstream.headers import header_block
from pyoco_server.jetstream.requests import Reply
from pyoco_server.store.store import Store


def subject_of(store: Store, name: str) -> str:
    return f"{store.config.events_subject_prefix}.{name}"


async def test_a_publish_says_where_it_landed(store: Store) -> None:
    first = await store.jetstream.publish(subject_of(store, "a"), b"1")
    second = await store.jetstream.publish(subject_of(store, "b"), b"2")
    assert (first.seq, second.seq) == (1, 2)
    assert await store.jetstream.last_seq(store.config.events_stream) == 2


async def test_an_expected_sequence_is_of_the_subject_and_not_of_the_stream(store: Store) -> None:
    await store.jetstream.publish(subject_of(store, "other"), b"0")
    at_zero = header_block(Nats_Expected_Last_Subject_Sequence=0)
    placed = await store.jetstream.publish(subject_of(store, "a"), b"1", at_zero)
    assert placed.seq == 2
    with pytest.raises(WrongSequence):
        await store.jetstream.publish(subject_of(store, "a"), b"2", at_zero)


async def test_other_refusals_carry_their_code(store: Store) -> None:
    expecting = header_block(Nats_Expected_Stream="ANOTHER")
    with pytest.raises(BrokerRefused) as refused:
        await store.jetstream.publish(subject_of(store, "a"), b"1", expecting)
    assert refused.value.code == 10060


@pytest.mark.parametrize("at_leader", [False, True])
async def test_all_messages_of_one_subject_after_a_place_come_in_order(store: Store, at_leader: bool) -> None:
    count = BATCH_MAX + 5 if not at_leader else 20
    for number in range(count):
        await store.jetstream.publish(subject_of(store, "a"), b"%d" % number)
        if number % 50 == 0:
            await store.jetstream.publish(subject_of(store, "noise"), b"?")
    read = store.jetstream.after_at_leader if at_leader else store.jetstream.after
    found = await read(store.config.events_stream, subject_of(store, "a"), 0)
    assert [message.data for message in found] == [b"%d" % number for number in range(count)]
    rest = await read(store.config.events_stream, subject_of(store, "a"), found[9].seq)
    assert [message.seq for message in rest] == [message.seq for message in found[10:]]


async def test_exactly_one_full_page_ends(store: Store) -> None:
    for number in range(BATCH_MAX):
        await store.jetstream.publish(subject_of(store, "a"), b"%d" % number)
    found = await store.jetstream.after(store.config.events_stream, subject_of(store, "a"), 0)
    assert len(found) == BATCH_MAX


async def test_first_and_last_are_found_and_nothing_is_none(store: Store) -> None:
    stream, subject = store.config.events_stream, subject_of(store, "a")
    for read in (store.jetstream.first, store.jetstream.last, store.jetstream.last_at_leader):
        assert await read(stream, subject) is None
    assert await store.jetstream.after(stream, subject, 0) == []
    await store.jetstream.publish(subject, b"1", header_block(Pyoco_Commit="x"))
    await store.jetstream.publish(subject, b"2", header_block(Pyoco_Commit="y"))
    first, last = await store.jetstream.first(stream, subject), await store.jetstream.last(stream, subject)
    leader = await store.jetstream.last_at_leader(stream, subject)
    assert first is not None
    assert last is not None
    assert leader is not None
    assert (first.data, first.seq, first.header(b"Pyoco-Commit")) == (b"1", 1, "x")
    assert (last.data, last.seq, last.header(b"Pyoco-Commit")) == (b"2", 2, "y")
    assert (leader.subject, leader.data, leader.seq, leader.header(b"Pyoco-Commit")) == (
        subject,
        b"2",
        2,
        "y",
    )


async def test_an_error_of_the_api_is_raised(store: Store) -> None:
    with pytest.raises(BrokerRefused) as refused:
        await store.jetstream.last_seq("NO_SUCH_STREAM")
    assert refused.value.code == 10059


async def _fill_beyond_one_batch(store: Store) -> tuple[str, str]:
    """More bytes than the broker sends in one batch: it ends one at 64 MiB, whatever count was asked for."""
    stream, subject = store.config.events_stream, subject_of(store, "large")
    data = b"x" * 300_000
    for start in range(0, 300, 20):
        sent = [store.jetstream.publish_soon(subject, data, b"") for _ in range(start, start + 20)]
        for one in sent:
            await one
    return stream, subject


async def test_a_batch_that_the_broker_ends_early_is_not_the_end(store: Store) -> None:
    stream, subject = await _fill_beyond_one_batch(store)
    assert len(await store.jetstream.after(stream, subject, 0)) == 300
    assert len(await store.jetstream.since(stream, subject, 0.0)) == 300
    page = await store.jetstream.page(stream, subject, 0, 250)
    assert [message.seq for message in page] == list(range(1, 251))
    assert len(await store.jetstream.page(stream, subject, 250, 250)) == 50


async def test_the_last_page_is_known_as_such_without_asking_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, subject = store.config.events_stream, subject_of(store, "a")
    for number in range(3):
        await store.jetstream.publish(subject, b"%d" % number)
    asked = []
    ask_for_many = store.requests.ask_for_many

    async def counted(where: str, payload: bytes) -> list[Reply]:
        asked.append(payload)
        return await ask_for_many(where, payload)

    monkeypatch.setattr(store.requests, "ask_for_many", counted)
    assert len(await store.jetstream.after(stream, subject, 0)) == 3
    assert len(asked) == 1
