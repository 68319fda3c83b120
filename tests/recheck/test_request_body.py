"""The two bodies: what is accepted, what it then means, and what is refused with a sentence that says why."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.errors import Invalid
from pyoco_server.recheck.request_body import RecheckBody, StrategyFilter, parse_recheck, parse_recheck_all

LEAST = {"strategies": ["a"], "reason": "manual"}
ALL = {"filter": {}, "reason": "manual"}


def test_what_is_not_said_has_its_default() -> None:
    asked = parse_recheck(LEAST)
    assert asked == RecheckBody(
        strategies=("a",),
        reason="manual",
        dry_run=True,
        params={"recalc_metrics": ["winrate", "sharpe", "max_dd"], "retrain": False},
    )
    everything = parse_recheck_all(ALL)
    assert (everything.filter, everything.batch_size, everything.dry_run) == (StrategyFilter(), 25, True)


def test_strategies_are_counted_before_those_named_twice_are_dropped() -> None:
    assert parse_recheck(LEAST | {"strategies": ["b", "a", "b"]}).strategies == ("b", "a")
    assert len(parse_recheck(LEAST | {"strategies": ["a"] * 50}).strategies) == 1
    with pytest.raises(Invalid, match="strategies must be a list of 1 to 50 ids"):
        parse_recheck(LEAST | {"strategies": ["a"] * 51})


@pytest.mark.parametrize("days", [1, 180, 14.0])
def test_a_window_may_look_back_some_days(days: float) -> None:
    assert parse_recheck(LEAST | {"window": {"lookback_days": days}}).window == {"lookback_days": int(days)}


def test_a_window_may_have_two_ends_up_to_180_days_apart() -> None:
    window = {"from": "2025-01-01T00:00:00Z", "to": "2025-06-30T00:00:00Z"}
    assert parse_recheck(LEAST | {"window": window}).window == window
    same = {"from": "2025-01-01T09:00:00+09:00", "to": "2025-01-01T00:00:00Z"}
    assert parse_recheck(LEAST | {"window": same}).window == same


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"strategies": []}, "strategies must be a list of 1 to 50 ids."),
        ({"strategies": "a"}, "strategies must be a list of 1 to 50 ids."),
        ({"strategies": ["A"]}, "strategies.0 must match ^[a-z0-9._-]+$ with at most 128 characters."),
        ({"strategies": ["a", 7]}, "strategies.1 must match ^[a-z0-9._-]+$ with at most 128 characters."),
        ({"strategies": ["a\n"]}, "strategies.0 must match ^[a-z0-9._-]+$ with at most 128 characters."),
        ({"reason": ""}, "reason must be text of 1 to 64 characters."),
        ({"reason": "r" * 65}, "reason must be text of 1 to 64 characters."),
        ({"reason": 1}, "reason must be text of 1 to 64 characters."),
        ({"window": {}}, "window needs from and to, or lookback_days; never both."),
        ({"window": None}, "window must be an object."),
        ({"window": {"lookback_days": 0}}, "window.lookback_days must be 1 to 180."),
        ({"window": {"lookback_days": 181}}, "window.lookback_days must be 1 to 180."),
        ({"window": {"lookback_days": 1.5}}, "window.lookback_days must be a whole number, 1 to 180."),
        ({"window": {"lookback_days": True}}, "window.lookback_days must be a whole number, 1 to 180."),
        ({"window": {"from": "2025-01-01T00:00:00Z"}}, "window.to is missing."),
        (
            {"window": {"from": "2025-01-01T00:00:00Z", "to": "2025-01-02T00:00:00Z", "lookback_days": 3}},
            "window needs from and to, or lookback_days; never both.",
        ),
        (
            {"window": {"from": "2025-01-02T00:00:00Z", "to": "2025-01-01T00:00:00Z"}},
            "window is invalid: from must not be after to.",
        ),
        (
            {"window": {"from": "2025-01-01T00:00:00Z", "to": "2025-06-30T00:00:01Z"}},
            "window is invalid: it may span at most 180 days.",
        ),
        (
            {"window": {"from": "2025-01-01T00:00:00", "to": "2025-01-02T00:00:00Z"}},
            "window.from must be an instant of RFC 3339, like 2025-08-24T03:34:56Z.",
        ),
        (
            {"window": {"from": "2025-02-30", "to": "2025-03-02"}},
            "window.from must be an instant of RFC 3339, like 2025-08-24T03:34:56Z.",
        ),
        ({"dry_run": "false"}, "dry_run must be true or false."),
        ({"dry_run": None}, "dry_run must be true or false."),
        ({"params": []}, "params must be an object."),
        (
            {"params": {"recalc_metrics": ["beta"]}},
            "params.recalc_metrics may hold winrate, sharpe, max_dd; not 'beta'.",
        ),
        ({"params": {"retrain": 1}}, "params.retrain must be true or false."),
        ({"trace_id": ""}, "trace_id must be text of 1 to 128 characters."),
        ({"trace_id": "t" * 129}, "trace_id must be text of 1 to 128 characters."),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_its_place(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_recheck(LEAST | change)
    assert refused.value.message == sentence


@pytest.mark.parametrize("missing", ["strategies", "reason"])
def test_required_members_are_required(missing: str) -> None:
    with pytest.raises(Invalid, match=f"{missing} is missing"):
        parse_recheck({name: value for name, value in LEAST.items() if name != missing})


@pytest.mark.parametrize("body", [None, [], "text", 7])
def test_a_body_is_an_object(body: Any) -> None:
    with pytest.raises(Invalid, match="the body must be an object"):
        parse_recheck(body)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"filter": None}, "filter must be an object."),
        ({"filter": {"tags_any": []}}, "filter.tags_any is empty; name what it may be, or leave it out."),
        ({"filter": {"tags_any": "x"}}, "filter.tags_any must be a list of at most 100 texts."),
        ({"filter": {"health": ["ill"]}}, "filter.health may hold healthy, degraded, unknown; not 'ill'."),
        ({"batch_size": 9}, "batch_size must be 10 to 100."),
        ({"batch_size": 101}, "batch_size must be 10 to 100."),
        ({"batch_size": "25"}, "batch_size must be a whole number, 10 to 100."),
    ],
)
def test_what_cannot_be_accepted_of_recheck_all_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_recheck_all(ALL | change)
    assert refused.value.message == sentence


def test_unknown_members_are_accepted() -> None:
    assert parse_recheck(LEAST | {"colour": "red"}) == parse_recheck(LEAST)
    assert parse_recheck_all(ALL | {"filter": {"colour": ["red"]}}).filter == StrategyFilter()


NAMES = [
    "strategies", "reason", "window", "from", "to", "lookback_days", "dry_run", "params", "recalc_metrics",
    "retrain", "trace_id", "filter", "tags_any", "health", "instrument_any", "batch_size",
]  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=20,
)


@given(anything)
def test_whatever_is_sent_is_accepted_or_refused(body: Any) -> None:
    for read in (parse_recheck, parse_recheck_all):
        with suppress(Invalid):
            assert 1 <= len(read(body).reason) <= 64
