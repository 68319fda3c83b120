"""Catalogues, batches and buckets of tokens."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyoco_server.errors import Invalid
from pyoco_server.recheck.catalogue import Strategy, parse_catalogue
from pyoco_server.recheck.records import Batch, batches_of, run_id_of, run_ids_of
from pyoco_server.recheck.thresholds import Rule
from pyoco_server.token_bucket import ROUNDING, BucketLevel, take

FILE = """
threshold_profiles:
  strict: {sharpe: {op: ">=", value: 1}}
strategies:
  - {id: strat.meanrev.m1, title: Mean reversion, instrument: USDJPY, tags: [daily, daily, fx]}
  - {id: b, enabled: false, threshold_profile: strict, flow: other, owner: desk, metadata: {a: [1]}}
"""


def test_a_catalogue_has_strategies_and_profiles() -> None:
    found = parse_catalogue(FILE)
    assert found.profiles == {"strict": {"sharpe": Rule(">=", 1.0)}}
    assert found.strategies == [
        Strategy(id="strat.meanrev.m1", title="Mean reversion", instrument="USDJPY", tags=("daily", "fx")),
        Strategy(
            id="b", title="b", enabled=False, threshold_profile="strict", flow="other", owner="desk",
            metadata={"a": [1]},
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "The catalogue is not YAML"),
        ("[]", "the catalogue must be an object"),
        ("{}", "strategies must be a list of at most"),
        ("strategies: [7]", "strategies.0 must be an object"),
        ("strategies: [{title: x}]", "id is missing"),
        ("strategies: [{id: X}]", "strategies.0.id must match"),
        ("strategies: [{id: a}, {id: a}]", "strategies has 'a' twice"),
        ("strategies: [{id: a, enabled: maybe}]", "strategies.0.enabled must be true or false"),
        ("strategies: [{id: a, threshold_profile: x}]", "strategies.0.threshold_profile names 'x'"),
        ("strategies: [{id: a, metadata: {b: 2020-01-01}, tags: [1]}]", "strategies.0.tags.0 must be text"),
        ("{strategies: [], threshold_profiles: {p: {beta: {op: '>', value: 1}}}}", "needs rules for winrate"),
        ("{strategies: [], threshold_profiles: {p: {sharpe: {op: '=', value: 1}}}}", "op must be one of"),
        ("{strategies: [], threshold_profiles: {p: {sharpe: {op: '>', value: .nan}}}}", "must be a number"),
    ],
)
def test_a_catalogue_is_refused_with_the_place_of_the_problem(text: str, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_catalogue(text)
    assert sentence in refused.value.message


@given(st.lists(st.sampled_from(["f", "g", "h"]), max_size=60), st.integers(1, 30))
def test_batches_hold_each_strategy_once_and_never_mix_flows(flows: list[str], size: int) -> None:
    strategies = [(f"s{number}", flow) for number, flow in enumerate(flows)]
    batches = batches_of(strategies, size)
    assert sorted(one for batch in batches for one in batch.strategies) == sorted(
        one for one, _ in strategies
    )
    known = dict(strategies)
    assert all({known[one] for one in batch.strategies} == {batch.flow} for batch in batches)
    assert all(1 <= len(batch.strategies) <= size for batch in batches)
    expected = sum(math.ceil(flows.count(flow) / size) for flow in set(flows))
    assert len(batches) == expected


def test_a_batch_is_always_the_same_run() -> None:
    assert run_id_of("R", 0) == run_id_of("R", 0) != run_id_of("R", 1)
    assert run_ids_of("R", 2) == [run_id_of("R", 0), run_id_of("R", 1)]
    assert batches_of([("a", "f")], 25) == [Batch("f", ("a",))]


def test_a_bucket_lets_a_burst_through_and_then_refills_evenly() -> None:
    level: BucketLevel | None = None
    for left in reversed(range(10)):
        level, taken = take(level, 10, 1000.0)
        assert (taken.allowed, taken.remaining) == (True, left)
    level, taken = take(level, 10, 1000.0)
    assert (taken.allowed, taken.remaining, taken.retry_after_sec, taken.reset_sec) == (False, 0, 6, 60)
    level, taken = take(level, 10, 1005.5)
    assert (taken.allowed, taken.retry_after_sec) == (False, 1)
    level, taken = take(level, 10, 1006.0)
    assert taken.allowed
    assert take(level, 10, 990.0)[1].allowed is False


@example([4.163715194879053, 0.0], 1)  # a minute later a hair is missing from the token
@given(st.lists(st.floats(0, 30), max_size=80), st.integers(1, 50))
def test_a_bucket_never_gives_more_than_a_burst_and_what_was_refilled(
    pauses: list[float], limit: int
) -> None:
    level, now, allowed = None, 0.0, 0
    for pause in pauses:
        now += pause
        level, taken = take(level, limit, now)
        allowed += taken.allowed
        assert 0 <= taken.remaining <= limit
        if not taken.allowed:
            assert take(level, limit, now + taken.retry_after_sec)[1].allowed
    assert allowed <= limit + now * limit / 60 + 2 * ROUNDING
