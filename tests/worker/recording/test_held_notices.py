"""What is written of a log whose run prints nothing: no chunk, or all of it; and never two accounts of it."""

from __future__ import annotations

import asyncio
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyoco import Flow

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.events import Event, RunCompleted, RunFailed
from pyoco_server.lifecycle.run import Claim
from pyoco_server.operations.logs.unwritten import log_entries, unwritten_chunk
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.store import Store
from pyoco_server.worker.recording import held_notices, run_log
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.recording.run_log import RunLog
from pyoco_server.worker.worker import PyocoNatsWorker
from tests.conftest import until
from tests.engine.building import flow_of, make_task, raising
from tests.worker.stage import (
    Flows,
    chain,
    count_of,
    ended_as,
    history,
    one_task,
    queue_drained,
    submitted,
    waiting,
    working,
)


async def performed(store: Store, **flow: Any) -> str:
    """Execute the flow once; gives its run id."""
    name = next(iter(flow))
    async with working(store.config, Flows(**flow)) as worker:
        run_id = await submitted(store, name)
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
    return run_id


async def messages(store: Store, run_id: str) -> list[str]:
    entries = await log_entries(store, run_id)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return [entry.message.split(" in ")[0].split(" on worker ")[0] for entry in entries]


async def stored_lines(store: Store, run_id: str) -> int:
    return (await store.logs.end(run_id)).lines


async def format_of_end(store: Store, run_id: str) -> int:
    [end] = [event for event in await history(store, run_id) if isinstance(event, RunCompleted | RunFailed)]
    return end.notices


async def test_a_run_that_prints_nothing_stores_no_line_and_has_all_of_them(store: Store) -> None:
    run_id = await performed(store, quick=chain(lambda: 1, lambda: 2))
    assert (await stored_lines(store, run_id), await format_of_end(store, run_id)) == (0, 1)
    assert await messages(store, run_id) == [
        "attempt 1 begins",
        "task t1 started",
        "task t1 succeeded",
        "task t2 started",
        "task t2 succeeded",
        "run completed",
    ]


async def test_what_is_printed_is_stored_with_the_notices_around_it(store: Store) -> None:
    run_id = await performed(store, speaks=chain(lambda: 1, lambda: sys.stdout.write("hello\n")))
    assert (await stored_lines(store, run_id), await format_of_end(store, run_id)) == (7, 0)
    assert (await messages(store, run_id))[3:] == [
        "task t2 started",
        "hello",
        "task t2 succeeded",
        "run completed",
    ]


async def test_a_silent_failure_is_shown_with_its_traceback(store: Store) -> None:
    run_id = await performed(store, fails=one_task(raising(ValueError("the reason"))))
    await ended_as(store, run_id, "FAILED")
    assert (await stored_lines(store, run_id), await format_of_end(store, run_id)) == (0, 1)
    said = await messages(store, run_id)
    assert said[:3] == ["attempt 1 begins", "task only started", "task only failed: the reason"]
    assert said[-2:] == ["ValueError: the reason", "run failed: the reason"]


async def test_notices_of_a_long_silent_run_are_stored_while_it_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "HOLD_SEC", 0.05)
    started, go_on = threading.Event(), threading.Event()
    async with working(store.config, Flows(long=one_task(waiting(started, go_on)))) as worker:
        run_id = await submitted(store, "long")
        executing = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(lambda: stored_lines(store, run_id))
        assert await messages(store, run_id) == ["attempt 1 begins", "task only started"]
        go_on.set()
        await executing
    assert (await stored_lines(store, run_id), await format_of_end(store, run_id)) == (4, 0)
    assert (await messages(store, run_id))[-1] == "run completed"


@pytest.mark.parametrize("limit", ["count", "bytes", "setting"])
async def test_a_log_that_would_be_slow_to_read_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "count":
        monkeypatch.setattr(held_notices, "HELD_MAX", 20)
    elif limit == "bytes":
        monkeypatch.setattr(held_notices, "HELD_BYTES_MAX", 1_000)
    else:
        monkeypatch.setattr(store, "config", replace(store.config, log_max_lines_per_run=20))

    def fan() -> Flow:
        return flow_of(*(make_task(f"part{n:03}", lambda: "x" * 100) for n in range(12)))

    run_id = await performed(store, fan=fan)
    assert await format_of_end(store, run_id) == 0
    said = [entry.message for entry in await store.logs.entries(run_id)]
    assert said[-1] == "run completed"
    assert (len(said) == 26) == (limit != "setting")


async def test_a_cancel_that_comes_before_the_end_is_in_the_log(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is refused, so that the notices are written after all, without it."""
    conclude = Recorder._conclude_unwritten

    async def after_a_cancel(self: Recorder, ending: Any) -> Any:
        await cancel_run(store, self.stored.run.run_id)
        return await conclude(self, ending)

    monkeypatch.setattr(Recorder, "_conclude_unwritten", after_a_cancel)
    run_id = await performed(store, quick=one_task(lambda: 1))
    await ended_as(store, run_id, "CANCELLED")
    said = await messages(store, run_id)
    assert said[:3] == ["attempt 1 begins", "task only started", "task only succeeded"]
    assert said[-1] == "run cancelled"
    assert "run completed" not in said
    assert await stored_lines(store, run_id) == len(said)


@pytest.mark.parametrize("after_it", [False, True], ids=["not sent", "answer lost"])
async def test_an_end_that_is_sent_twice_is_shown_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, after_it: bool
) -> None:
    """The broker is away for longer than notices are held: nothing is written while the end is in doubt."""
    monkeypatch.setattr(run_log, "HOLD_SEC", 0.01)
    async with working(store.config, Flows(quick=one_task(lambda: 1))) as worker:
        run_id = await submitted(store, "quick")
        _lose_end(worker, monkeypatch, after_it=after_it)
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
    assert await count_of(store, run_id, "RunCompleted") == 1
    assert await messages(store, run_id) == [
        "attempt 1 begins",
        "task only started",
        "task only succeeded",
        "run completed",
    ]
    assert (await stored_lines(store, run_id) == 0) == (await format_of_end(store, run_id) == 1)


async def test_a_line_that_comes_with_the_end_follows_the_lines_that_readers_have_seen(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored behind the same bytes: no line changes its number or its text."""
    seen: list[bytes] = []
    conclude = Recorder._conclude_unwritten

    async def with_a_line(self: Recorder, ending: Any) -> Any:
        commit = self._batcher.commit_with

        async def late(command: Any) -> Any:
            refused = await commit(command)
            chunk = await unwritten_chunk(store, self.stored.run)
            assert chunk is not None
            seen.append(chunk.data)
            self.log.add(LogLine(1_800_000_000.0, "stdout", "late", "only", 1))
            return refused

        monkeypatch.setattr(self._batcher, "commit_with", late)
        return await conclude(self, ending)

    monkeypatch.setattr(Recorder, "_conclude_unwritten", with_a_line)
    run_id = await performed(store, quick=one_task(lambda: 1))
    await until(lambda: stored_lines(store, run_id))
    [chunk] = await store.jetstream.after(
        store.config.logs_stream, f"{store.config.logs_subject_prefix}.{run_id}", 0
    )
    [shown] = seen
    assert chunk.data.startswith(shown)
    assert len(chunk.data.splitlines()) == len(shown.splitlines()) + 1
    assert (await messages(store, run_id))[-2:] == ["run completed", "late"]


async def test_a_second_claim_stores_its_notices(store: Store) -> None:
    """The first one may have stored lines, or may still be writing them."""
    log = RunLog(store, run_id := str(uuid.uuid4()), 2)
    log.note(Claim(worker_id="w", instance_id="i", fence=2, claimed_at=1_800_000_000.0))
    assert not log.hold_end()
    await log.close()
    assert [entry.message for entry in await store.logs.entries(run_id)] == ["attempt 2 begins on worker w"]


def _lose_end(worker: PyocoNatsWorker, monkeypatch: pytest.MonkeyPatch, *, after_it: bool) -> None:
    """The first three commits of the end fail, with or without being stored."""
    runs, left = worker._store.runs, [3]
    append: Callable[..., Any] = runs.append

    async def lossy(at: Any, events: tuple[Event, ...], *rest: Any, **more: Any) -> Any:
        if not isinstance(events[-1], RunCompleted) or not left[0]:
            return await append(at, events, *rest, **more)
        left[0] -= 1
        if after_it:
            await append(at, events, *rest, **more)
        raise Unavailable("the answer was lost")

    monkeypatch.setattr(runs, "append", lossy)
