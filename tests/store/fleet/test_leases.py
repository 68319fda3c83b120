"""Leases: taken, renewed and released at a known revision."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.store import Store

OURS = Lease(holder="w1.aa", worker_id="w1", host="h", boot_id="b", pid=7, tags=["a"], free_slots=2)
THEIRS = Lease(holder="w2.bb")


async def test_a_lease_is_read_as_it_was_written(store: Store) -> None:
    assert await store.leases.read("w1.aa") == (None, 0)
    revision = await store.leases.write("w1.aa", OURS, revision=0)
    assert await store.leases.read("w1.aa") == (OURS, revision)


async def test_every_renewal_moves_the_revision(store: Store) -> None:
    revisions = [await store.leases.write("k", OURS, revision=0)]
    for _ in range(3):
        revisions.append(await store.leases.renew("k", OURS, revision=revisions[-1]))
    assert revisions == sorted(set(revisions))


async def test_of_many_who_want_a_lease_one_gets_it(store: Store) -> None:
    ends = await asyncio.gather(
        *(store.leases.write("keeper", Lease(holder=f"g{n}"), revision=0) for n in range(10)),
        return_exceptions=True,
    )
    winners = [n for n, end in enumerate(ends) if isinstance(end, int)]
    assert len(winners) == 1
    lease, _ = await store.leases.read("keeper")
    assert lease == Lease(holder=f"g{winners[0]}")
    assert {type(end) for end in ends} == {int, WrongSequence}


async def test_a_lease_that_another_has_taken_cannot_be_written_at_the_old_revision(store: Store) -> None:
    revision = await store.leases.write("keeper", OURS, revision=0)
    await store.leases.write("keeper", THEIRS, revision=revision)
    with pytest.raises(WrongSequence):
        await store.leases.write("keeper", OURS, revision=revision)
    assert (await store.leases.read("keeper"))[0] == THEIRS


async def test_a_renewal_goes_on_after_its_answer_was_lost(store: Store) -> None:
    revision = await store.leases.write("k", OURS, revision=0)
    await store.leases.write("k", OURS, revision=revision)  # written, and we never heard of it
    renewed = await store.leases.renew("k", OURS, revision=revision)
    assert await store.leases.read("k") == (OURS, renewed)


async def test_a_released_lease_is_free_and_leaves_nothing_for_ever(store: Store) -> None:
    revision = await store.leases.write("k", OURS, revision=0)
    await store.leases.release("k", revision=revision)
    lease, released = await store.leases.read("k")
    assert lease is None
    assert released > revision
    bucket = store.config.leases_kv_bucket
    mark = await store.jetstream.last(f"KV_{bucket}", f"$KV.{bucket}.k")
    assert mark is not None
    assert mark.header(b"Nats-TTL") == "1h"
    assert await store.leases.write("k", THEIRS, revision=released) > released


async def test_a_lease_that_another_has_taken_is_not_released_by_the_old_holder(store: Store) -> None:
    revision = await store.leases.write("k", OURS, revision=0)
    await store.leases.write("k", THEIRS, revision=revision)
    with pytest.raises(WrongSequence):
        await store.leases.release("k", revision=revision)
    assert (await store.leases.read("k"))[0] == THEIRS


async def test_a_lease_of_somebody_long_gone_vanishes_by_itself(store: Store) -> None:
    await store.leases.write("k", OURS, revision=0)
    bucket = store.config.leases_kv_bucket
    message = await store.jetstream.last(f"KV_{bucket}", f"$KV.{bucket}.k")
    assert message is not None
    assert message.header(b"Nats-TTL") == "1h"
