"""Any part of a log is found without the rest: by line, by byte, however unevenly it was written."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.store.logs.chunks import Chunk, LogUnit, find
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.log_writing import Writer


def chunks_of(sizes: list[tuple[int, int]]) -> list[Chunk]:
    """A log of chunks with so many lines each, so many messages of others before each."""
    chunks: list[Chunk] = []
    seq, line, byte = 0, 1, 0
    for lines, others in sizes:
        seq += others + 1
        data = b"x" * (lines * 3)
        chunks.append(Chunk(seq, 1, line, lines, byte, byte, len(data), 0, data))
        line, byte = line + lines, byte + len(data)
    return chunks


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 40)), min_size=1, max_size=60),
    st.data(),
    st.sampled_from(LogUnit),
)
async def test_the_chunk_with_a_place_is_found_in_few_reads(
    sizes: list[tuple[int, int]], data: st.DataObject, by: LogUnit
) -> None:
    chunks = chunks_of(sizes)
    place = data.draw(st.integers(chunks[0].begins(by), chunks[-1].ends(by) - 1))
    reads = 0

    async def probe(seq: int) -> Chunk | None:
        nonlocal reads
        reads += 1
        return next((chunk for chunk in chunks if chunk.seq >= seq), None)

    found = await find(probe, chunks[0], chunks[-1], by, place)
    assert found.begins(by) <= place < found.ends(by)
    assert reads <= 2 * (chunks[-1].seq - chunks[0].seq + 1).bit_length()


async def test_even_logs_are_found_at_once() -> None:
    chunks = chunks_of([(2_000, 0)] * 500)
    asked: list[int] = []

    async def probe(seq: int) -> Chunk | None:
        asked.append(seq)
        return next((chunk for chunk in chunks if chunk.seq >= seq), None)

    found = await find(probe, chunks[0], chunks[-1], LogUnit.LINE, 777_777)
    assert found.line <= 777_777 <= found.last_line
    assert len(asked) <= 3


@pytest.mark.parametrize("by", list(LogUnit))
async def test_reading_begins_in_the_middle(store: Store, by: LogUnit) -> None:
    writer = Writer(store, run_id := str(uuid.uuid4()))
    other = Writer(store, str(uuid.uuid4()))
    for number in range(40):
        await writer.write(*(f"line {number}.{n} ü" for n in range(number % 4 + 1)))
        await other.write("not ours")
    span = await store.log_reader.span(run_id)
    assert span is not None
    assert (span.first.line, span.lines, span.last.end_byte) == (1, writer.end.lines, len(writer.written))
    for place in (span.first.begins(by), span.last.ends(by) // 2, span.last.ends(by) - 1):
        got = [chunk async for chunk in store.log_reader.from_place(run_id, span, by, place)]
        assert got[0].begins(by) <= place < got[0].ends(by)
        assert got[-1].seq == span.last.seq
        assert b"".join(chunk.data for chunk in got) == writer.written[got[0].byte :]


async def test_a_log_without_its_front_keeps_its_numbers(store: Store) -> None:
    writer = Writer(store, run_id := str(uuid.uuid4()))
    for number in range(6):
        await writer.write(f"a{number}", f"b{number}")
    await writer.cut_front(2)
    span = await store.log_reader.span(run_id)
    assert span is not None
    assert (span.first.line, span.lines) == (5, 12)
    got = [chunk async for chunk in store.log_reader.from_place(run_id, span, LogUnit.LINE, 5)]
    assert [chunk.line for chunk in got] == [5, 7, 9, 11]
    assert await store.log_reader.span(str(uuid.uuid4())) is None


async def test_listeners_are_told_of_every_chunk(store: Store, other_store: Store) -> None:
    heard: list[Chunk] = []
    run_id = str(uuid.uuid4())
    sid = await store.log_reader.listen(run_id, heard.append)
    await store.client.flush()
    writer = Writer(other_store, run_id)
    await writer.write("one", "two")
    await writer.write("three", omitted=4)
    await until(lambda: len(heard) == 2)
    assert [(chunk.line, chunk.lines, chunk.omitted) for chunk in heard] == [(1, 2, 0), (3, 1, 4)]
    assert b"".join(chunk.data for chunk in heard) == writer.written
    assert heard[-1].seq == writer.end.seq
    await store.log_reader.unlisten(sid)
    await store.client.flush()
    await writer.write("unheard")
    await store.client.flush()
    assert len(heard) == 2
