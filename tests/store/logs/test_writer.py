"""Logs of runs: whole lines, numbered without gaps, appended by one writer at a time."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from pyoco_server.ids import new_token
from pyoco_server.store.logs.writer import LogEnd, LogLine, LogMoved
from pyoco_server.store.store import Store
from tests.store.making import Mishap

AT = 1_800_000_000.25


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(AT, "stdout", text, "a", 1) for text in texts]


def a_run() -> str:
    return str(uuid.uuid4())


async def appended(store: Store, run_id: str, at: LogEnd, *texts: str, fence: int = 1) -> LogEnd:
    return await store.logs.append(run_id, at, lines(*texts), fence=fence, chunk_id=new_token())


async def test_lines_come_back_in_order_and_numbered(store: Store) -> None:
    run_id = a_run()
    end = await appended(store, run_id, LogEnd(), "one", "zwei ü")
    end = await appended(store, run_id, end, "three")
    entries = await store.logs.entries(run_id)
    assert [(entry.seq, entry.message) for entry in entries] == [(1, "one"), (2, "zwei ü"), (3, "three")]
    assert entries[0].timestamp == "2027-01-15T08:00:00.250000Z"
    assert (entries[0].stream, entries[0].task, entries[0].attempt, entries[0].level) == (
        "stdout",
        "a",
        1,
        None,
    )
    assert await store.logs.entries(a_run()) == []


async def test_the_end_says_how_much_there_is(store: Store) -> None:
    run_id = a_run()
    assert await store.logs.end(run_id) == LogEnd()
    end = await appended(store, run_id, LogEnd(), "one", "zwei ü", fence=3)
    assert await store.logs.end(run_id) == end
    assert (end.lines, end.fence) == (2, 3)
    assert end.text_size == len("one\nzwei ü\n".encode())
    stored = b"".join(msgspec.json.encode(entry) + b"\n" for entry in await store.logs.entries(run_id))
    assert end.size == len(stored)


async def test_of_two_writers_at_one_end_one_is_told_where_it_is_now(
    store: Store, other_store: Store
) -> None:
    run_id = a_run()
    end = await appended(store, run_id, LogEnd(), "one", fence=1)
    with pytest.raises(LogMoved) as moved:
        await appended(other_store, run_id, LogEnd(), "mine", fence=2)
    assert moved.value.now == end
    await appended(other_store, run_id, end, "mine", fence=2)
    assert [entry.message for entry in await store.logs.entries(run_id)] == ["one", "mine"]


async def test_a_lost_answer_does_not_double_a_chunk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = a_run()
    Mishap(monkeypatch, store, f"{store.config.logs_subject_prefix}.{run_id}")
    end = await appended(store, run_id, LogEnd(), "once")
    assert await store.logs.end(run_id) == end
    assert [entry.message for entry in await store.logs.entries(run_id)] == ["once"]


async def test_whatever_a_line_holds_comes_back(store: Store) -> None:
    run_id = a_run()
    odd = ["", " ", "\t", "\x00\x1b[31m", "a\rb", "\u2028\u2029", '{"seq": 7}', "x" * 100_000]
    await appended(store, run_id, LogEnd(), *odd)
    assert [entry.message for entry in await store.logs.entries(run_id)] == odd
