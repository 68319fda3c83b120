"""Thresholds at their boundaries, judging without inventing numbers, and how a request stands."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.recheck.judging import (
    ARTIFACTS_MAX,
    artifacts_in,
    failed_result,
    judge,
    returned_by_strategy,
)
from pyoco_server.recheck.records import (
    BatchOutcome,
    Request,
    RequestStatus,
    StrategyResult,
    status_of,
    tally,
)
from pyoco_server.recheck.thresholds import BUILT_IN, METRICS, Rule, StrategyHealth, health_of, profile_of

GOOD = {"winrate": 0.52, "sharpe": 0.80, "max_dd": 0.10}


@pytest.mark.parametrize(
    ("change", "health"),
    [
        ({}, StrategyHealth.HEALTHY),
        ({"winrate": 0.51999}, StrategyHealth.DEGRADED),
        ({"sharpe": 0.79999}, StrategyHealth.DEGRADED),
        ({"max_dd": 0.10001}, StrategyHealth.DEGRADED),
        ({"winrate": None}, StrategyHealth.UNKNOWN),
        ({"winrate": None, "sharpe": 0.1}, StrategyHealth.DEGRADED),
        (dict.fromkeys(METRICS), StrategyHealth.UNKNOWN),
    ],
)
def test_a_value_at_its_boundary_is_healthy(change: dict[str, Any], health: StrategyHealth) -> None:
    assert health_of(GOOD | change, BUILT_IN) is health


def test_a_profile_has_only_its_own_rules() -> None:
    strict = {"winrate": Rule(">", 0.6)}
    assert health_of({"winrate": 0.6}, strict) is StrategyHealth.DEGRADED
    assert health_of({"winrate": 0.61}, strict) is StrategyHealth.HEALTHY
    assert profile_of("strict", {"strict": strict}) is strict
    assert profile_of("gone", {"strict": strict}) is BUILT_IN
    assert profile_of("gone", {"default": strict}) is strict


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "0.9", True, None, [], 10**400])
def test_what_is_no_finite_number_becomes_null(value: Any) -> None:
    result = judge("a", {"metrics": GOOD | {"winrate": value}}, BUILT_IN)
    assert (result.metrics["winrate"], result.health, result.failed) == (None, StrategyHealth.UNKNOWN, False)


@pytest.mark.parametrize(
    "returned", [None, 7, "x", [], {}, {"metrics": None}, {"metrics": []}, {"error": "no"}]
)
def test_without_a_metrics_object_a_strategy_failed(returned: Any) -> None:
    result = judge("a", returned, BUILT_IN)
    assert (result.failed, result.health) == (True, StrategyHealth.UNKNOWN)
    assert result.metrics == dict.fromkeys(METRICS)


def test_an_empty_metrics_object_is_an_answer() -> None:
    result = judge("a", {"metrics": {}}, BUILT_IN)
    assert (result.failed, result.health) == (False, StrategyHealth.UNKNOWN)


def test_several_last_tasks_may_each_speak_of_some() -> None:
    output = {"left": {"a": 1}, "right": {"b": 2, "c": 3}, "said": "x"}
    assert returned_by_strategy(output, ["a", "b"]) == {"a": 1, "b": 2}
    assert returned_by_strategy({"a": 1, "b": {"a": 5}}, ["a", "b"]) == {"a": 1, "b": {"a": 5}}
    assert returned_by_strategy([1], ["a"]) == {}


def test_the_digest_of_a_result_follows_from_what_was_measured() -> None:
    one, same = (judge(name, {"metrics": GOOD}, BUILT_IN) for name in "ab")
    assert one.digest == same.digest
    assert one.digest.startswith("sha256:")
    assert one.digest != judge("a", {"metrics": GOOD | {"sharpe": 0.9}}, BUILT_IN).digest


def test_artifacts_have_text_or_bytes_and_anything_else_is_left_out() -> None:
    wanted: list[Any] = [
        {"kind": "chart", "name": "c.svg", "content_type": "image/svg+xml", "content": "<svg/>"},
        {"kind": "odd", "content_base64": base64.b64encode(b"\x00\x01").decode(), "content_type": "x\r\ny/z"},
        {"kind": "csv", "content_base64": "%%"},
        {"kind": "csv"},
        "rubbish",
    ]
    chart, other = artifacts_in({"artifacts": wanted})
    assert (chart.kind, chart.name, chart.content) == ("chart", "c.svg", b"<svg/>")
    assert (other.kind, other.name, other.content) == ("other", "artifact", b"\x00\x01")
    assert other.content_type == "application/octet-stream"
    assert len(artifacts_in({"artifacts": wanted[:1] * 40})) == ARTIFACTS_MAX
    assert artifacts_in({"artifacts": 7}) == artifacts_in(None) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "metrics", "sharpe", "artifacts", "content"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_whatever_a_flow_returns_is_judged_with_finite_numbers_or_null(output: Any) -> None:
    result = judge("a", returned_by_strategy(output, ["a"]).get("a"), BUILT_IN)
    assert all(value is None or math.isfinite(value) for value in result.metrics.values())
    assert set(result.metrics) == set(METRICS)
    artifacts_in(output)


def request(strategies: int, batches: int = 1, *, dry_run: bool = False) -> Request:
    return Request(
        request_id="R", tenant="t", client_id="c", reason="r", submitted_at=1.0,
        strategies=strategies, batches=batches, dry_run=dry_run,
    )  # fmt: skip


def outcome(batch: int, good: int, bad: int) -> BatchOutcome:
    results: list[StrategyResult] = [judge(f"g{n}", {"metrics": GOOD}, BUILT_IN) for n in range(good)]
    results += [failed_result(f"b{n}", "raised") for n in range(bad)]
    return BatchOutcome(request_id="R", batch=batch, completed_at=float(batch), results=tuple(results))


@pytest.mark.parametrize(
    ("good", "bad", "status"),
    [
        (3, 0, RequestStatus.SUCCESS),
        (2, 1, RequestStatus.SUCCESS),
        (1, 1, RequestStatus.FAILED),
        (1, 2, RequestStatus.FAILED),
    ],
)
def test_a_request_failed_when_half_or_more_did(good: int, bad: int, status: RequestStatus) -> None:
    assert status_of(request(good + bad), tally([outcome(0, good, bad)])) is status


def test_a_request_runs_until_every_batch_is_in() -> None:
    first = tally([outcome(0, 2, 0)])
    assert status_of(request(4, 2), first) is RequestStatus.RUNNING
    whole = tally([outcome(0, 2, 0), outcome(1, 1, 1)])
    assert status_of(request(4, 2), whole) is RequestStatus.SUCCESS
    assert (whole.batches, whole.strategies, whole.failed, whole.last_update) == (2, 4, 1, 1.0)
    assert whole.health == {"healthy": 3, "degraded": 0, "unknown": 1}


def test_nothing_to_do_is_done() -> None:
    assert status_of(request(0, 0), tally([])) is RequestStatus.SUCCESS
    assert status_of(request(3, 1, dry_run=True), tally([])) is RequestStatus.SUCCESS
