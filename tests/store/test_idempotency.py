"""The bucket of requests: who writes at which revision, what is told of it, and how it goes."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from pyoco_server.jetstream.errors import AnswerLost, WrongSequence
from pyoco_server.store.idempotency import NOTHING, Record, RecordState
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.store.making import Mishap

RECORD = Record(
    method="POST",
    path="/runs",
    digest="sha256:0",
    holder="h1",
    resource_id="r",
    command_id="c",
    reserved_at=1.0,
    expires_at=2.0,
)


async def test_only_one_of_two_can_reserve(store: Store, other_store: Store) -> None:
    revision = await store.ledger.put("a.b", RECORD, revision=0)
    with pytest.raises(WrongSequence):
        await other_store.ledger.put("a.b", replace(RECORD, holder="h2"), revision=0)
    assert await other_store.ledger.get("a.b") == (RECORD, revision)


async def test_what_was_taken_back_can_be_reserved_again(store: Store) -> None:
    revision = await store.ledger.put("a.b", RECORD, revision=0)
    with pytest.raises(WrongSequence):
        await store.ledger.delete("a.b", revision=revision + 7)
    await store.ledger.delete("a.b", revision=revision)
    kept = await store.ledger.get("a.b")
    assert kept.record is None
    with pytest.raises(WrongSequence):
        await store.ledger.put("a.b", RECORD, revision=0)
    await store.ledger.put("a.b", RECORD, revision=kept.revision)


async def test_nothing_is_there_before(store: Store) -> None:
    assert await store.ledger.get("a.b") == NOTHING
    assert await store.ledger.below("a", 10) == []


async def test_all_uses_of_a_key_are_found_and_no_others(store: Store) -> None:
    for address in ("a.1", "a.2", "b.1", "a.3"):
        await store.ledger.put(address, RECORD, revision=0)
    await store.ledger.delete("a.2", revision=(await store.ledger.get("a.2")).revision)
    assert [address for address, _ in await store.ledger.below("a", 10)] == ["a.1", "a.3"]
    assert [address for address, _ in await store.ledger.below("a", 1)] == ["a.1"]


async def test_parts_of_an_answer_are_no_uses_of_the_key(store: Store) -> None:
    large = b"".join(b"%08x" % (number * 2654435761 % 2**32) for number in range(200_000))
    done = replace(RECORD, state=RecordState.DONE)
    await store.ledger.put_done("a.b", done, large, revision=0)
    ((address, record),) = await store.ledger.below("a", 10)
    assert record.parts > 1
    assert await store.ledger.body_of(address, record) == large


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_lost_acknowledgement_of_ours_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    Mishap(monkeypatch, store, "$KV.", times=lost)
    revision = await store.ledger.put("a.b", RECORD, revision=0)
    assert await store.ledger.get("a.b") == (RECORD, revision)


async def test_a_lost_acknowledgement_is_not_mistaken_for_somebody_elses_write(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await other_store.ledger.put("a.b", replace(RECORD, holder="h2"), revision=0)
    Mishap(monkeypatch, store, "$KV.", times=1)
    with pytest.raises(WrongSequence):
        await store.ledger.put("a.b", RECORD, revision=0)


async def test_a_broker_that_stays_silent_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Mishap(monkeypatch, store, "$KV.", times=9, sent=False)
    with pytest.raises(AnswerLost):
        await store.ledger.put("a.b", RECORD, revision=0)


async def test_writes_are_told_to_who_listens_to_this_record(store: Store, other_store: Store) -> None:
    async with other_store.ledger.watch("a.b") as written:
        await other_store.ledger.get("a.b")  # the broker knows by now that somebody listens
        await store.ledger.put("a.c", RECORD, revision=0)
        revision = await store.ledger.put("a.b", RECORD, revision=0)
        async with asyncio.timeout(20):
            await written.wait()
        written.clear()
        await store.ledger.delete("a.b", revision=revision)
        async with asyncio.timeout(20):
            await written.wait()


async def test_a_record_that_cannot_be_read_is_as_good_as_none(store: Store) -> None:
    bucket = store.config.idempotency_kv_bucket
    await store.jetstream.publish(f"$KV.{bucket}.a.b", b"rubbish")
    kept = await store.ledger.get("a.b")
    assert kept.record is None
    assert await store.ledger.put("a.b", RECORD, revision=kept.revision) > kept.revision


async def test_everything_in_it_expires(store: Store) -> None:
    large = b"".join(b"%08x" % (number * 2654435761 % 2**32) for number in range(200_000))
    await store.ledger.put_done("a.b", RECORD, large, revision=0)
    revision = await store.ledger.put("a.c", RECORD, revision=0)
    await store.ledger.delete("a.c", revision=revision)
    bucket = store.config.idempotency_kv_bucket
    messages = await store.jetstream.after(f"KV_{bucket}", f"$KV.{bucket}.>", 0)
    assert {message.header(b"Nats-TTL") for message in messages} == {"172800s", "1h"}


async def test_the_broker_lets_a_record_go_when_its_time_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.ledger, "ttl_sec", 1.0)  # no setting allows that
    await store.ledger.put("a.b", RECORD, revision=0)

    async def is_gone() -> bool:
        return await store.ledger.get("a.b") == NOTHING

    await until(is_gone)
    await store.ledger.put("a.b", RECORD, revision=0)
