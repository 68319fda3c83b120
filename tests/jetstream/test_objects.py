"""Objects are laid out as other nats clients lay them out, and are there whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Sequence

import msgspec
import nats
import pytest
from nats.js.api import ObjectMeta
from nats.js.object_store import ObjectStore

from pyoco_server.errors import Conflict, NotFound, Unavailable
from pyoco_server.jetstream.api import StoredMessage, parse_ack
from pyoco_server.jetstream.errors import ProposalInFlight, WrongSequence
from pyoco_server.jetstream.headers import header_block
from pyoco_server.jetstream.object_info import ObjectInfo, decode_info
from pyoco_server.jetstream.objects import CHUNK_BYTES, NotSame, ObjectDamaged, Objects
from pyoco_server.jetstream.requests import Reply
from pyoco_server.store.store import Store
from tests.store.making import Mishap

BIG = os.urandom(5_000_000)
SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 40 * CHUNK_BYTES]


@pytest.fixture
def objects(store: Store) -> Objects:
    return Objects(store.jetstream, store.config.results_object_bucket)


@pytest.fixture
async def theirs(store: Store) -> AsyncIterator[ObjectStore]:
    """The same bucket, by nats-py."""
    connection = await nats.connect(store.config.nats_url)
    yield await connection.jetstream().object_store(store.config.results_object_bucket)
    await connection.close()


@pytest.mark.parametrize("size", SIZES)
async def test_what_was_put_is_read_back(objects: Objects, size: int) -> None:
    data = os.urandom(size)
    put = await objects.put("a", data)
    assert (put.size, put.sha256_hex) == (size, hashlib.sha256(data).hexdigest())
    assert await objects.get("a") == data
    assert b"".join([piece async for piece in objects.stream("a")]) == data
    assert await objects.info("a") == put


async def test_a_source_may_give_its_bytes_in_any_pieces(objects: Objects) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(BIG), 77_777):
            yield BIG[start : start + 77_777]
            yield b""

    put = await objects.put("a", pieces())
    assert put.chunks == -(-len(BIG) // CHUNK_BYTES)
    assert await objects.get("a") == BIG


@pytest.mark.parametrize("data", [b"", b"small", BIG], ids=["empty", "small", "big"])
async def test_nats_py_reads_what_we_put(objects: Objects, theirs: ObjectStore, data: bytes) -> None:
    put = await objects.put("ä name.whl", data, headers={"x-tags": "cpu,linux"})
    result = await theirs.get("ä name.whl")
    assert bytes(result.data or b"") == data
    info = await theirs.get_info("ä name.whl")
    assert (info.nuid, info.size, info.chunks, info.digest) == (put.nuid, put.size, put.chunks, put.digest)
    assert (info.headers, info.deleted, info.bucket) == ({"x-tags": "cpu,linux"}, False, objects.bucket)
    assert [entry.name for entry in await theirs.list()] == ["ä name.whl"]


@pytest.mark.parametrize("data", [b"", b"small", BIG], ids=["empty", "small", "big"])
async def test_we_read_what_nats_py_put(objects: Objects, theirs: ObjectStore, data: bytes) -> None:
    put = await theirs.put("b", data, meta=ObjectMeta(name="b", headers={"x-tags": "gpu"}))
    assert await objects.get("b") == data
    [info] = await objects.list()
    assert (info.nuid, info.size, info.digest, info.headers) == (
        put.nuid, put.size, put.digest, {"x-tags": "gpu"},
    )  # fmt: skip
    assert info.modified_at > 1_700_000_000


async def test_each_deletes_what_the_other_put(objects: Objects, theirs: ObjectStore) -> None:
    await objects.put("ours", b"1")
    await theirs.put("theirs", b"2")
    await theirs.delete("ours")
    await objects.delete("theirs")
    assert await objects.list() == []
    assert await objects.info("ours") is None
    with pytest.raises(nats.js.errors.ObjectNotFoundError):
        await theirs.get("theirs")


async def test_what_is_not_there_is_not_found(objects: Objects) -> None:
    assert await objects.info("no") is None
    for act in (objects.get("no"), objects.delete("no"), anext(objects.stream("no"))):
        with pytest.raises(NotFound) as refused:
            await act
        assert refused.value.err_id is None
    await objects.put("no", b"1")
    await objects.delete("no")
    with pytest.raises(NotFound):
        await objects.get("no")


async def test_a_replacing_put_leaves_only_its_own_chunks(store: Store, objects: Objects) -> None:
    first = await objects.put("a", BIG)
    second = await objects.put("a", b"new")
    assert second.nuid != first.nuid
    assert await chunks_of(store, objects) == {second.nuid: 1}
    await objects.delete("a")
    assert await chunks_of(store, objects) == {}
    await objects.put("a", b"again")
    assert await objects.get("a") == b"again"


async def test_a_put_at_another_revision_is_refused_and_leaves_nothing(
    store: Store, objects: Objects
) -> None:
    first = await objects.put("a", b"1", expected_revision=0)
    for wrong in (0, first.revision + 1):
        with pytest.raises(WrongSequence):
            await objects.put("a", b"2", expected_revision=wrong)
    assert await objects.get("a") == b"1"
    assert await chunks_of(store, objects) == {first.nuid: 1}
    second = await objects.put("a", b"2", expected_revision=first.revision)
    with pytest.raises(WrongSequence):
        await objects.delete("a", expected_revision=first.revision)
    await objects.delete("a", expected_revision=second.revision)
    await objects.put("a", b"3", expected_revision=0)
    assert await objects.get("a") == b"3"


async def test_of_many_puts_at_one_revision_one_wins(store: Store, objects: Objects) -> None:
    puts = (objects.put("a", b"%d" % n, expected_revision=0) for n in range(10))
    ends = await asyncio.gather(*puts, return_exceptions=True)
    [winner] = [n for n, end in enumerate(ends) if isinstance(end, ObjectInfo)]
    assert await objects.get("a") == b"%d" % winner
    assert list((await chunks_of(store, objects)).values()) == [1]


async def test_of_many_puts_without_a_revision_the_last_one_stands(store: Store, objects: Objects) -> None:
    infos = await asyncio.gather(*(objects.put("a", b"%d" % n) for n in range(10)))
    last = max(infos, key=lambda info: info.revision)
    assert await objects.info("a") == last
    assert await chunks_of(store, objects) == {last.nuid: 1}


async def test_a_rule_about_the_whole_bucket_holds_for_puts_of_different_names(
    store: Store, objects: Objects
) -> None:
    """Names that are numbers, and only a higher one than all may be added."""
    await objects.put("not a number", b"")
    tried: list[str] = []

    async def put(number: int) -> ObjectInfo:
        def admit(there: Sequence[ObjectInfo]) -> None:
            tried.append(str(number))
            highest = max((int(info.name) for info in there if info.name.isdigit()), default=-1)
            if number <= highest:
                raise Conflict(f"{highest} is there")

        return await objects.put(str(number), b"x", admit=admit)

    ends = await asyncio.gather(*map(put, range(8)), return_exceptions=True)
    assert all(isinstance(end, ObjectInfo | Conflict) for end in ends)
    stored = sorted((end for end in ends if isinstance(end, ObjectInfo)), key=lambda info: info.revision)
    assert stored[-1].name == "7"
    assert [info.name for info in stored] == sorted(info.name for info in stored)
    assert await chunks_of(store, objects) == {info.nuid: 1 for info in stored}
    assert len(tried) > len(ends)  # somebody had to ask again


async def test_readers_see_one_whole_object_or_another(objects: Objects) -> None:
    versions = [bytes([n]) * (3 * CHUNK_BYTES) for n in range(6)]
    await objects.put("a", versions[0])
    done = asyncio.Event()

    async def read() -> int:
        times = 0
        while not done.is_set() or not times:
            assert await objects.get("a") in versions
            times += 1
        return times

    readers = [asyncio.create_task(read()) for _ in range(3)]
    for version in versions[1:]:
        await objects.put("a", version)
    done.set()
    assert all(await asyncio.gather(*readers))


async def test_an_object_replaced_while_it_is_streamed_says_so(objects: Objects) -> None:
    await objects.put("a", BIG)
    reading = objects.stream("a")
    await anext(reading)
    await objects.put("a", b"new")
    with pytest.raises(Unavailable, match="replaced"):
        [piece async for piece in reading]


async def test_missing_chunks_are_told(store: Store, objects: Objects) -> None:
    put = await objects.put("a", BIG)
    stream = f"OBJ_{objects.bucket}"
    subject = f"$O.{objects.bucket}.C.{put.nuid}"
    await store.jetstream.api(f"STREAM.PURGE.{stream}", {"filter": subject, "keep": 3})
    with pytest.raises(ObjectDamaged, match="chunks are missing"):
        await objects.get("a")


async def test_a_wrong_digest_is_told_at_the_end(store: Store, objects: Objects) -> None:
    put = await objects.put("a", b"good")
    stream = f"OBJ_{objects.bucket}"
    subject = f"$O.{objects.bucket}.C.{put.nuid}"
    await store.jetstream.api(f"STREAM.PURGE.{stream}", {"filter": subject})
    await store.jetstream.publish(subject, b"evil")
    reading = objects.stream("a")
    assert await anext(reading) == b"evil"
    with pytest.raises(ObjectDamaged, match="digest"):
        await anext(reading)


async def test_a_source_that_fails_leaves_nothing(store: Store, objects: Objects) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield BIG
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await objects.put("a", source())
    assert await objects.info("a") is None
    assert await chunks_of(store, objects) == {}


async def test_a_cancelled_put_leaves_nothing(store: Store, objects: Objects) -> None:
    reached = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield BIG
        reached.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(objects.put("a", source()))
    await reached.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert await chunks_of(store, objects) == {}


@pytest.mark.parametrize("sent", [True, False], ids=["stored", "not stored"])
async def test_a_lost_answer_to_the_meta_message_is_found_out(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    mishap = Mishap(monkeypatch, store, f"$O.{objects.bucket}.M.", sent=sent)
    put = await objects.put("a", BIG)
    assert len(mishap.subjects) == 2
    assert await objects.info("a") == put
    assert await objects.get("a") == BIG


async def test_chunks_stay_when_nobody_knows_whether_they_were_announced(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mishap(monkeypatch, store, f"$O.{objects.bucket}.M.", times=2)
    with pytest.raises(Unavailable, match="did not say"):
        await objects.put("a", BIG)
    assert await objects.get("a") == BIG


async def test_a_lost_answer_to_a_deletion_is_found_out(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = await objects.put("a", BIG)
    Mishap(monkeypatch, store, f"$O.{objects.bucket}.M.")
    assert await objects.delete("a") == put
    assert await objects.list() == []
    assert await chunks_of(store, objects) == {}


async def test_a_lost_chunk_fails_the_put(
    store: Store, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mishap(monkeypatch, store, f"$O.{objects.bucket}.C.", sent=False)
    with pytest.raises(Unavailable):
        await objects.put("a", BIG)
    assert await objects.info("a") is None
    assert await chunks_of(store, objects) == {}


async def test_a_list_has_all_pages_by_name(objects: Objects) -> None:
    names = [f"n{number:03}" for number in range(300)]
    await asyncio.gather(*(objects.put(name, b"x") for name in reversed(names)))
    await objects.delete(names[7])
    assert [info.name for info in await objects.list()] == [name for name in names if name != names[7]]


async def test_a_list_of_a_bucket_that_is_not_there_is_no_empty_list(store: Store) -> None:
    with pytest.raises(Unavailable):
        await Objects(store.jetstream, "nowhere").list()


async def test_somebody_elses_nonsense_hides_nothing_and_can_be_replaced(
    store: Store, objects: Objects
) -> None:
    await objects.put("a", b"1")
    await objects.put("b", b"2")
    await store.jetstream.publish(f"$O.{objects.bucket}.M.YQ==", b"nonsense", header_block(Nats_Rollup="sub"))
    assert [info.name for info in await objects.list()] == ["b"]
    assert await objects.info("a") is None
    await objects.put("a", b"3", expected_revision=0)
    assert await objects.get("a") == b"3"


def test_the_meta_message_of_nats_go_is_read() -> None:
    meta = {
        "name": "a",
        "headers": {"X-Tags": ["cpu", "linux"]},
        "options": {"max_chunk_size": 131072},
        "bucket": "b",
        "nuid": "N",
        "size": 3,
        "mtime": "0001-01-01T00:00:00Z",
        "chunks": 1,
        "digest": "SHA-256=" + "A" * 43 + "=",
    }
    info = decode_info(msgspec.json.encode(meta), 7, "2026-01-02T03:04:05.123456789Z")
    assert info is not None
    assert info.headers == {"X-Tags": "cpu,linux"}
    assert (info.sha256_hex, info.revision) == ("00" * 32, 7)
    assert int(info.modified_at) == 1_767_323_045


def test_a_message_that_a_cluster_has_not_decided_on_is_no_verdict() -> None:
    """A message before ours is still on its way to the replicas: perhaps our own first try."""
    error = {"code": 400, "err_code": 10164, "description": "wrong last sequence"}
    with pytest.raises(ProposalInFlight):
        parse_ack("subject", Reply(b"", msgspec.json.encode({"error": error, "seq": 0})))


async def chunks_of(store: Store, objects: Objects) -> dict[str, int]:
    """How many chunks lie in the bucket, by nuid."""
    prefix = f"$O.{objects.bucket}.C."
    answer = await store.jetstream.api(f"STREAM.INFO.OBJ_{objects.bucket}", {"subjects_filter": prefix + ">"})
    subjects = answer["state"].get("subjects") or {}
    return {subject.removeprefix(prefix): count for subject, count in subjects.items()}


async def test_what_is_created_is_never_replaced(store: Store, objects: Objects) -> None:
    digest = hashlib.sha256(BIG).hexdigest()
    first = await objects.create("a", BIG, digest)
    assert await objects.create("a", BIG, digest) == first
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(NotSame):
        await objects.create("a", b"other", other)
    assert await objects.get("a") == BIG
    assert list(await chunks_of(store, objects)) == [first.nuid]


async def test_what_is_removed_leaves_no_mark(store: Store, objects: Objects) -> None:
    await objects.put("a", BIG)
    await objects.remove("a")
    await objects.remove("a")
    assert await store.jetstream.after(f"OBJ_{objects.bucket}", ">", 0) == []


async def test_groups_and_their_parts_are_removed_apart(store: Store) -> None:
    objects = store.results.objects
    for name in ("r1/1/1/t", "r1/2/1/t", "r1/2/1/u", "r2/1/1/t"):
        await objects.put(name, BIG)
    assert await objects.remove_others("r1.2", {"r1/2/1/t"}) == 1
    assert [info.name for info in await objects.list()] == ["r1/1/1/t", "r1/2/1/t", "r2/1/1/t"]
    await store.jetstream.publish(f"$O.{objects.bucket}.C.r1.1.UNFINISHED", b"x")
    assert await objects.remove_others("r1", {"r1/2/1/t"}) == 2
    await objects.remove_group("r1")
    assert [info.name for info in await objects.list()] == ["r2/1/1/t"]
    assert list(await chunks_of(store, objects)) == [(await objects.list())[0].nuid]


async def test_a_copy_that_lags_does_not_make_chunks_of_a_kept_object_nobodys(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = store.results.objects
    kept, other = "r1/1/1/kept", "r1/1/1/other"
    for name in (kept, other):
        await objects.put(name, BIG)

    async def before_both(*_: object) -> list[StoredMessage]:
        return []

    monkeypatch.setattr(store.jetstream, "after", before_both)
    removed = await objects.remove_others("r1.1", {kept})
    assert await objects.get(kept) == BIG
    assert removed == 1
    assert await objects.info(other) is None
