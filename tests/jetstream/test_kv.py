"""Buckets change by compare-and-set only."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import NOTHING, Bucket
from pyoco_server.store.store import Store


@pytest.fixture
def bucket(store: Store) -> Bucket:
    return Bucket(store.jetstream, store.config.workers_kv_bucket)


async def test_a_value_is_there_for_both_kinds_of_reading(bucket: Bucket) -> None:
    assert await bucket.get("k") == await bucket.get_at_leader("k") == NOTHING
    revision = await bucket.put("k", b"1", revision=0)
    assert await bucket.get("k") == await bucket.get_at_leader("k") == (b"1", revision)


async def test_a_write_at_another_revision_is_refused(bucket: Bucket) -> None:
    revision = await bucket.put("k", b"1", revision=0)
    for wrong in (0, revision + 1):
        with pytest.raises(WrongSequence):
            await bucket.put("k", b"2", revision=wrong)
    assert (await bucket.get("k")).value == b"1"


async def test_of_many_writers_at_one_revision_one_wins(bucket: Bucket) -> None:
    ends = await asyncio.gather(
        *(bucket.put("k", b"%d" % n, revision=0) for n in range(20)), return_exceptions=True
    )
    winners = [n for n, end in enumerate(ends) if isinstance(end, int)]
    assert len(winners) == 1
    assert (await bucket.get("k")).value == b"%d" % winners[0]


async def test_a_deleted_key_has_no_value_but_a_revision(bucket: Bucket) -> None:
    revision = await bucket.put("k", b"1", revision=0)
    deleted = await bucket.delete("k", revision=revision)
    assert await bucket.get("k") == await bucket.get_at_leader("k") == (None, deleted)
    with pytest.raises(WrongSequence):
        await bucket.put("k", b"2", revision=0)
    assert await bucket.put("k", b"2", revision=deleted) > deleted


async def test_an_empty_value_is_a_value(bucket: Bucket) -> None:
    revision = await bucket.put("k", b"", revision=0)
    assert await bucket.get("k") == (b"", revision)
