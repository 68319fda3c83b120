"""What of a task's inputs and result is written down, and how what cannot be is marked."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from pyoco_server.lifecycle.snapshot import SnapshotRecord
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.store.store import Store
from pyoco_server.worker.values import (
    INPUTS_INLINE_BYTES_MAX,
    OUTPUT_INLINE_BYTES_MAX,
    inputs_kept,
    output_kept,
)
from tests.engine.building import flow_of, make_task
from tests.worker.stage import Flows, ended_as, expect_alive, one_task, queue_drained, submitted, working


class Unrepresentable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class HalfACharacter:
    def __repr__(self) -> str:
        return "\udc80"


def bottomless() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


UNSERIALISABLE: dict[str, Any] = {
    "an object": object(),
    "a function": lambda: None,
    "not a number": math.nan,
    "infinity": math.inf,
    "half a character": "\udc80",
    "a circle": bottomless(),
    "an object without a repr": Unrepresentable(),
    "an object whose repr cannot be written": HalfACharacter(),
}


@pytest.mark.parametrize("output", UNSERIALISABLE.values(), ids=UNSERIALISABLE)
async def test_a_result_that_is_no_json_is_marked_and_the_run_completes(store: Store, output: Any) -> None:
    record = await _record_of(store, lambda: output)
    assert (record.state, record.kept) == ("SUCCEEDED", OutputKept.UNSERIALISABLE)
    assert isinstance(record.output, str)


async def test_a_result_over_64_kib_is_marked_and_left_out(store: Store) -> None:
    record = await _record_of(store, lambda: "x" * OUTPUT_INLINE_BYTES_MAX)
    assert (record.kept, record.output) == (OutputKept.TOO_LARGE, None)


@pytest.mark.parametrize("output", [None, 0, "", [], {}, "が", {"a": [1, 2.5, None]}, 2**70, "x" * 60_000])
async def test_json_is_kept_as_it_is(store: Store, output: Any) -> None:
    record = await _record_of(store, lambda: output)
    assert (record.kept, record.output) == (OutputKept.STORED, output)


async def test_a_result_changed_after_it_was_returned_stays_as_it_was_returned(store: Store) -> None:
    shared: list[int] = [1]

    def give() -> list[int]:
        return shared

    record = await _record_of(store, give)
    shared.append(2)
    assert record.output == [1]


async def test_results_that_fill_many_commits_are_all_kept(store: Store) -> None:
    """Thirty times 60 KiB is more than one message may carry."""

    def flow() -> Any:
        parts = [make_task(f"part{n:02}", lambda: "x" * 60_000) for n in range(30)]
        return flow_of(*parts, make_task("last", lambda: "done", parts))

    async with working(store.config, Flows(wide=flow)) as worker:
        run_id = await submitted(store, "wide")
        assert await worker.run_once(timeout=5.0) == run_id
        await queue_drained(store)
        snapshot = await ended_as(store, run_id, "COMPLETED")
        assert snapshot.task_records_truncated
        assert len(snapshot.tasks) == 31
        whole = await store.runs.load(run_id, whole=True)
        assert whole is not None
        assert {record.output for record in whole.run.tasks.values()} == {"x" * 60_000, "done"}
        await expect_alive(store, worker)


def test_inputs_are_kept_up_to_a_sum_and_described_beyond_it() -> None:
    kept, size = inputs_kept(
        {"small": 1, "large": "x" * INPUTS_INLINE_BYTES_MAX, "after": [2], "odd": object()}
    )
    assert bytes(kept["small"]) == b"1"
    assert kept["large"].startswith("'xxx")
    assert bytes(kept["after"]) == b"[2]"
    assert kept["odd"].startswith("<object object")
    assert size < INPUTS_INLINE_BYTES_MAX


def test_any_number_of_inputs_makes_no_message_too_large() -> None:
    kept, size = inputs_kept({f"input{n}": HalfACharacter() if n % 2 else "x" * 2000 for n in range(2_000)})
    assert len(kept) == 2_000
    assert len(msgspec.json.encode(kept)) < 100_000
    assert size < 100_000


def test_the_size_of_a_kept_result_is_told() -> None:
    assert output_kept([1, 2])[1:] == (OutputKept.STORED, 5)
    assert output_kept(None) == (None, OutputKept.STORED, 0)


async def _record_of(store: Store, func: Any) -> SnapshotRecord:
    async with working(store.config, Flows(gives=one_task(func))) as worker:
        run_id = await submitted(store, "gives")
        assert await worker.run_once(timeout=5.0) == run_id
        await queue_drained(store)
        return (await ended_as(store, run_id, "COMPLETED")).task_records["only"]
