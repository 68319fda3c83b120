"""The log of one run as its worker writes it: soon, in few pieces, and within its limits."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.printable import as_line
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.store import Store
from pyoco_server.supervision import failures_by_loop
from pyoco_server.worker.recording import run_log
from pyoco_server.worker.recording.run_log import (
    FEW_LINES,
    FLUSH_FEW_SEC,
    FLUSH_SEC,
    GATHER_SEC,
    LOOP,
    Rate,
    RunLog,
)
from tests.conftest import until
from tests.log_writing import Writer


def printed(text: str) -> LogLine:
    return LogLine(1_800_000_000.0, "stdout", text, "a", 1)


async def chunks(store: Store, run_id: str) -> list[list[str]]:
    subject = f"{store.config.logs_subject_prefix}.{run_id}"
    stored = await store.jetstream.after(store.config.logs_stream, subject, 0)
    entries = {entry.seq: entry.message for entry in await store.logs.entries(run_id)}
    numbers = iter(sorted(entries))
    return [[entries[next(numbers)] for _ in message.data.splitlines()] for message in stored]


async def test_a_line_is_stored_by_itself_and_what_comes_together_stays_together(store: Store) -> None:
    log = RunLog(store, run_id := str(uuid.uuid4()), 1)
    log.add(printed("alone"))
    await until(lambda: store.logs.entries(run_id))
    log.add(printed("one"))
    log.add(printed("two"))
    await log.flush()
    assert await chunks(store, run_id) == [["alone"], ["one", "two"]]
    await log.close()


async def test_printing_all_the_time_does_not_make_a_chunk_of_every_line(store: Store) -> None:
    log = RunLog(store, run_id := str(uuid.uuid4()), 1)
    for number in range(300):
        log.add(printed(str(number)))
        await asyncio.sleep(0.001)
    await log.close()
    stored = await chunks(store, run_id)
    assert [text for chunk in stored for text in chunk] == [str(number) for number in range(300)]
    assert len(stored) < 150


async def test_after_a_single_line_the_next_one_is_due_sooner_than_after_many(store: Store) -> None:
    """A run that prints every 50 ms had each second line stored 60 ms after it was printed."""
    log = RunLog(store, str(uuid.uuid4()), 1)
    for lines, pause_sec in ((1, FLUSH_FEW_SEC), (FEW_LINES, FLUSH_FEW_SEC), (FEW_LINES + 1, FLUSH_SEC)):
        for _ in range(lines):
            log.add(printed("together"))
        flushed_from = asyncio.get_running_loop().time()
        await log.flush()
        flushed_until = asyncio.get_running_loop().time()
        log.add(printed("the next"))
        assert log._timer is not None
        due = log._timer.when()
        assert due <= max(asyncio.get_running_loop().time() + GATHER_SEC, flushed_until + pause_sec)
        assert due >= flushed_from + pause_sec
        await log.flush()
    await log.close()


async def test_a_notice_of_several_lines_is_several_lines(store: Store) -> None:
    log = RunLog(store, run_id := str(uuid.uuid4()), 1)
    log.warn("one\ntwo")
    await log.close()
    assert await chunks(store, run_id) == [["one", "two"]]


async def test_numbers_go_on_when_everything_before_is_gone(store: Store) -> None:
    log = RunLog(store, run_id := str(uuid.uuid4()), 1)
    log.add(printed("one"))
    await log.flush()
    await store.logs.erase(run_id)
    log.add(printed("two"))
    await log.close()
    assert [(entry.seq, entry.message) for entry in await store.logs.entries(run_id)] == [(2, "two")]


async def test_a_successor_silences_its_predecessor(store: Store) -> None:
    log = RunLog(store, run_id := str(uuid.uuid4()), 1)
    log.add(printed("mine"))
    await log.flush()
    successor = Writer(store, run_id, fence=2)
    successor.end = await store.logs.end(run_id)
    await successor.write("theirs")
    log.add(printed("too late"))
    await log.close()
    assert await chunks(store, run_id) == [["mine"], ["theirs"]]


async def test_who_prints_too_fast_is_cut_short_where_it_happens(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(store.config, log_max_lines_per_sec=1)
    monkeypatch.setattr(store, "config", slow)
    log = RunLog(store, run_id := str(uuid.uuid4()), 1)
    for number in range(50):
        log.add(printed(str(number)))
    log.warn("run completed")
    await log.close()
    kept = [text for chunk in await chunks(store, run_id) for text in chunk]
    assert kept[:10] == [str(number) for number in range(10)]
    assert kept[10:] == ["40 lines are left out here: a run may print 1 a second", "run completed"]
    assert (await store.logs.end(run_id)).omitted == 40


async def test_the_mark_of_missing_lines_does_not_wait_for_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    few: NatsBackendConfig = replace(store.config, log_max_lines_per_run=2)
    monkeypatch.setattr(store, "config", few)
    monkeypatch.setattr(run_log, "MARK_SEC", 0.2)
    log = RunLog(store, run_id := str(uuid.uuid4()), 1)
    for number in range(5):
        log.add(printed(str(number)))

    async def marks() -> int:
        return sum("left out" in entry.message for entry in await store.logs.entries(run_id))

    await until(marks)
    log.add(printed("more"))
    await until(lambda: _is(marks, 2))
    await log.close()


async def _is(count: object, wanted: int) -> bool:
    assert callable(count)
    return bool(await count() == wanted)


def test_a_burst_is_free_and_what_goes_on_is_counted() -> None:
    now = [0.0]
    rate = Rate(10, monotonic=lambda: now[0])
    assert sum(rate.take() for _ in range(500)) == 100
    now[0] = 0.9
    assert not rate.take()
    now[0] = 1.0
    assert sum(rate.take() for _ in range(500)) == 10
    now[0] = 1_000.0
    assert sum(rate.take() for _ in range(500)) == 100


@pytest.mark.parametrize("sign", ["x", "é", "緊", "🙂"])
def test_a_line_is_cut_at_so_many_bytes_and_never_in_a_character(sign: str) -> None:
    fits = sign * (8_192 // len(sign.encode()))
    assert as_line(fits) == fits
    assert as_line(fits + sign) == fits + " … cut"
    assert as_line(sign * 100_000) == fits + " … cut"


async def test_a_defect_while_a_chunk_is_stored_is_told_and_later_lines_are_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = failures_by_loop().get(LOOP, 0)
    written = RunLog(store, "run", 1)
    real = store.logs.append
    calls = 0

    async def append(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise TypeError("a defect")
        return await real(*arguments, **more)

    monkeypatch.setattr(store.logs, "append", append)
    written.add(printed("lost"))
    await written.flush()
    written.add(printed("kept"))
    await written.close()
    assert [entry.message for entry in await store.logs.entries("run")] == ["kept"]
    assert failures_by_loop()[LOOP] == before + 1
    assert "lines of a run are lost" in caplog.text
