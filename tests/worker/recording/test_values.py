"""What of a task's inputs and result is written down, and how what cannot be is marked."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.lifecycle.snapshot_record import SnapshotRecord
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.store.store import Store
from pyoco_server.worker.recording.values import (
    INPUTS_INLINE_BYTES_MAX,
    OUTPUT_INLINE_BYTES_MAX,
    StoredResult,
    inputs_kept,
    result_of,
    results_from,
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


async def test_a_result_over_64_kib_is_stored_beside_the_log(store: Store) -> None:
    large = "x" * OUTPUT_INLINE_BYTES_MAX
    record = await _record_of(store, lambda: large)
    assert record.kept is OutputKept.REFERENCED
    reference: Any = record.output
    assert reference["bytes"] == len(large) + 2
    data = msgspec.json.encode(large)
    assert reference["sha256"] == hashlib.sha256(data).hexdigest()
    assert b"".join([piece async for piece in store.results.objects.stream(reference["object"])]) == data


def test_a_result_over_the_limit_is_marked_and_left_out() -> None:
    assert result_of("x" * 2_000, 1_000) == StoredResult(None, OutputKept.TOO_LARGE)


class Point(NamedTuple):
    x: int


CHANGED_BY_JSON: dict[str, Any] = {
    "a tuple": (1, "a"),
    "tuples in a list": [(1, 2), (3, 4)],
    "one tuple among others": [1, (2,), {"a": (3, [4, (5,)])}],
    "a set": {1, 2},
    "a frozenset in a dict": {"a": frozenset({"x"}), "b": 1},
    "keys that are numbers": {1: "a", 2: (3,)},
    "bytes": b"\x00\xff",
    "instants": [datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2), time(1, 2), timedelta(days=1)],
    "decimals and ids": {"d": Decimal("1.50"), "u": UUID(int=7)},
    "an empty tuple": (),
    "a star for a key": {"*": (1,), "each": (2,), "at": [(3,)]},
}


@pytest.mark.parametrize("output", CHANGED_BY_JSON.values(), ids=CHANGED_BY_JSON)
def test_a_resumed_run_gets_the_very_value(output: Any) -> None:
    result = result_of(output, 10_000)
    assert (result.kept, result.json) == (OutputKept.STORED, msgspec.json.encode(output))
    back = results_from(msgspec.json.encode({"a": [msgspec.Raw(result.json or b""), result.types]}))["a"]
    assert back == output
    assert _kinds(back) == _kinds(output)


def _kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return type(value), {key: _kinds(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [_kinds(item) for item in value]
    return type(value)


@pytest.mark.parametrize("output", [Point(1), [1.0, math.nan], {"p": Point(2)}])
def test_what_cannot_be_had_again_is_shown_and_executed_again(output: Any) -> None:
    result = result_of(output, 10_000)
    assert (result.kept, result.json) == (OutputKept.APPROXIMATE, msgspec.json.encode(output))


def test_many_rows_need_one_description() -> None:
    rows = [(number, str(number)) for number in range(1_000)]
    assert result_of(rows, 100_000).types == {"each": {"is": "tuple"}}


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec="utf-8"))
        | st.binary()
        | st.decimals(allow_nan=False, allow_infinity=False),
        lambda inner: (
            st.lists(inner)
            | st.lists(inner).map(tuple)
            | st.dictionaries(st.text(), inner)
            | st.dictionaries(st.integers(), inner)
            | st.sets(st.integers())
        ),
    )
)
def test_any_mix_comes_back_or_is_executed_again(output: Any) -> None:
    result = result_of(output, 10_000_000)
    if result.kept is OutputKept.STORED and result.json is not None:
        back = results_from(msgspec.json.encode({"a": [msgspec.Raw(result.json), result.types]}))["a"]
        assert back == output
        assert _kinds(back) == _kinds(output)


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
        assert await worker.run_once(timeout=20.0) == run_id
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
    assert msgspec.json.encode(kept["small"]) == b"1"
    assert str(kept["large"]).startswith("'xxx")
    assert msgspec.json.encode(kept["after"]) == b"[2]"
    assert str(kept["odd"]).startswith("<object object")
    assert size < INPUTS_INLINE_BYTES_MAX


def test_any_number_of_inputs_makes_no_message_too_large() -> None:
    kept, size = inputs_kept({f"input{n}": HalfACharacter() if n % 2 else "x" * 2000 for n in range(2_000)})
    assert len(kept) == 2_000
    assert len(msgspec.json.encode(kept)) < 100_000
    assert size < 100_000


def test_the_size_of_a_kept_result_is_told() -> None:
    assert result_of([1, 2], 100) == StoredResult(b"[1,2]")
    assert result_of(None, 100) == StoredResult(None)


async def _record_of(store: Store, func: Any) -> SnapshotRecord:
    async with working(store.config, Flows(gives=one_task(func))) as worker:
        run_id = await submitted(store, "gives")
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        return (await ended_as(store, run_id, "COMPLETED")).task_records["only"]
