"""What runs print is in their logs: whole lines, in order, each of its task and attempt."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.logs.writer import LogEntry
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for
from tests.worker.slots.slot_stage import ended, serving, started

SPEC = f"{Path(__file__).with_name('output_flows.py')}:resolve"


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server, log_max_bytes=64 * 2**20)


async def log_of(store: Store, run_id: str) -> list[LogEntry]:
    entries = await store.logs.entries(run_id)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return entries


async def printed(store: Store, flow: str, marks: Path, **params: object) -> list[LogEntry]:
    """The log of one run of this flow, without our own notices."""
    run_id = await started(store, flow, marks, **params)
    run = await ended(store, run_id)
    assert run.status is RunStatus.COMPLETED, run.error
    return [entry for entry in await log_of(store, run_id) if entry.stream != "system"]


async def test_every_way_of_printing_is_heard(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        entries = await printed(store, "every_way", tmp_path / "marks")
    assert {(entry.task, entry.attempt) for entry in entries} == {("speak", 1)}
    said = [(entry.stream, entry.message) for entry in entries]
    from_outside = {  # on another way, so in an order of their own
        ("stdout", "from the shell"),
        ("stdout", "past python"),
        ("stdout", "from a process"),
        ("stderr", "no end"),
        ("stdout", "from a fork"),
    }
    assert [one for one in said if one not in from_outside] == [
        ("stdout", "printed"),
        ("stdout", "in two parts"),
        ("stderr", "to stderr"),
        ("logging", "my.code: logged well"),
        ("stdout", "bytes ü"),
        ("stdout", "two"),
        ("stdout", "lines"),
        ("stdout", "from a thread"),
        ("stdout", "from a pool"),
        ("stdout", "progress 100%"),
        ("stdout", "not ended"),
    ]
    assert from_outside <= set(said)
    assert next(entry for entry in entries if entry.stream == "logging").level == "INFO"


async def test_tasks_that_print_at_once_do_not_mix(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        entries = await printed(store, "both_at_once", tmp_path / "marks")
    for name in ("left", "right"):
        expected = [f"{name} {number}" for number in range(50)] + [f"{name} process {i}" for i in (1, 2, 3)]
        assert [entry.message for entry in entries if entry.task == name] == expected


async def test_runs_at_once_do_not_mix(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC, slots=3):
        logs = await asyncio.gather(
            *(printed(store, "who", tmp_path / "marks", who=f"run {n}") for n in range(6))
        )
    for number, entries in enumerate(logs):
        expected = [f"I am run {number}"] * 20 + [f"process of run {number}"]
        assert [entry.message for entry in entries] == expected


async def test_coroutines_speak_for_their_task(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        entries = await printed(store, "coroutine", tmp_path / "marks")
    assert [(entry.task, entry.message) for entry in entries] == [
        ("speak", "awaited a"),
        ("speak", "awaited b"),
    ]


async def test_a_hundred_thousand_lines_are_all_there(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        entries = await printed(store, "many", tmp_path / "marks", count=100_000)
        assert [entry.message for entry in entries] == [f"line {number}" for number in range(100_000)]


async def test_a_task_that_closes_stdout_harms_nobody_after_it(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        first = await printed(store, "closes", tmp_path / "marks")
        second = await printed(store, "every_way", tmp_path / "marks")
    said = [entry.message for entry in first]
    assert said[:2] == ["before", "after close"]
    assert "shell is heard" in said
    assert {"printed", "past python"} <= {entry.message for entry in second}


async def test_the_last_words_of_a_process_and_its_successor_are_there(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        run_id = await started(store, "last_words", tmp_path / "marks")
        run = await ended(store, run_id)
        entries = await log_of(store, run_id)
    assert run.status is RunStatus.COMPLETED
    said = [entry.message for entry in entries]
    first = said.index("attempt 1 begins on worker w")
    second = said.index("attempt 2 begins on worker w")
    assert {"last words", "from below"} <= set(said[first:second])
    assert any("exit code 5" in text for text in said[first:second])
    assert {"second life", "alive"} <= set(said[second:])
    attempts = {entry.message: entry.attempt for entry in entries}
    assert (attempts["last words"], attempts["second life"]) == (1, 2)


async def test_long_lines_are_cut_and_say_so(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        entries = await printed(store, "long_line", tmp_path / "marks")
    long, parts, surrogate = (entry.message for entry in entries)
    assert long == "x" * 8192 + " … cut"
    assert parts == "y" * 8192 + " … cut"
    assert surrogate == "\\ud800 lone surrogate"


async def test_the_log_tells_what_happened_to_the_run(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        run_id = await started(store, "fails", tmp_path / "marks")
        run = await ended(store, run_id)
        entries = await log_of(store, run_id)
    assert run.status is RunStatus.FAILED
    said = [entry.message for entry in entries]
    assert said[:4] == [
        "attempt 1 begins on worker w",
        "task fail started",
        "about to fail",
        "task fail failed: the reason; it will be tried again",
    ]
    assert "task fail started (attempt 2)" in said
    assert "ValueError: the reason" in said
    assert said[-1] == "run failed: the reason"


async def test_a_run_keeps_so_many_lines_and_says_that_there_were_more(store: Store, tmp_path: Path) -> None:
    config = replace(store.config, log_max_lines_per_run=100)
    async with serving(config, spec=SPEC):
        entries = await printed(store, "many", tmp_path / "marks", count=1_000)
        run_id = await started(store, "many", tmp_path / "marks", count=1_000)
        await ended(store, run_id)
        everything = await log_of(store, run_id)
    assert len(entries) < 100
    assert any("lines are left out here: a run keeps 100" in entry.message for entry in everything)


async def test_a_task_has_started_before_its_first_line_and_ended_after_its_last(
    store: Store, tmp_path: Path
) -> None:
    async with serving(store.config, spec=SPEC):
        run_id = await started(store, "every_way", tmp_path / "marks")
        await ended(store, run_id)
    of_task = [entry for entry in await log_of(store, run_id) if entry.task == "speak"]
    first, *lines, last = of_task
    assert (first.message, first.stream) == ("task speak started", "system")
    assert last.message.startswith("task speak succeeded")
    assert all(first.timestamp <= line.timestamp <= last.timestamp for line in lines)


async def test_a_process_that_a_run_left_does_not_print_into_the_log_of_the_next(
    store: Store, tmp_path: Path
) -> None:
    async with serving(store.config, spec=SPEC):
        first = await printed(store, "leaves", tmp_path / "marks")
        second = await printed(store, "comes_next", tmp_path / "marks")
    assert [entry.message for entry in first] == ["left"]
    assert sorted(entry.message for entry in second) == ["from the shell", "said"]
