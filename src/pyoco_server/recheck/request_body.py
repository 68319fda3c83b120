"""The two request bodies of rechecks, parsed and validated without the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import msgspec

from pyoco_server.json_value import JsonObject
from pyoco_server.recheck.catalogue import strategy_id_at
from pyoco_server.recheck.checks import (
    check_known,
    flag_at,
    invalid,
    member,
    object_at,
    text_at,
    texts_at,
    whole_number_at,
    window_at,
)
from pyoco_server.recheck.records import BATCH_SIZE
from pyoco_server.recheck.thresholds import METRICS, StrategyHealth

STRATEGIES_MAX = 50
REASON_CHARS_MAX = 64
TRACE_ID_CHARS_MAX = 128
BATCH_SIZES = (10, 100)
FILTER_VALUES_MAX = 100


class StrategyFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy matches if, for every member that is set, it has one of the values."""

    tags_any: tuple[str, ...] = ()
    health: tuple[str, ...] = ()
    instrument_any: tuple[str, ...] = ()


class RecheckBody(msgspec.Struct, frozen=True, kw_only=True):
    """`strategies` names the strategies; `filter` selects them."""

    reason: str
    strategies: tuple[str, ...] = ()
    filter: StrategyFilter | None = None
    window: JsonObject | None = None
    dry_run: bool = True
    params: JsonObject = {}
    trace_id: str | None = None
    batch_size: int = BATCH_SIZE


def parse_recheck(body: object) -> RecheckBody:
    members = object_at(body, "the body")
    return RecheckBody(strategies=_strategies(members), params=_params(members), **_shared(members))


def parse_recheck_all(body: object) -> RecheckBody:
    members = object_at(body, "the body")
    size = whole_number_at(members.get("batch_size", BATCH_SIZE), "batch_size", *BATCH_SIZES)
    return RecheckBody(filter=_filter(members), batch_size=size, params=_params({}), **_shared(members))


class _Shared(TypedDict):
    """The members that both bodies have."""

    reason: str
    window: JsonObject | None
    dry_run: bool
    trace_id: str | None


def _shared(members: Mapping[str, object]) -> _Shared:
    trace_id = None
    if "trace_id" in members:
        trace_id = text_at(members["trace_id"], "trace_id", 1, TRACE_ID_CHARS_MAX)
    return {
        "reason": text_at(member(members, "reason"), "reason", 1, REASON_CHARS_MAX),
        "window": window_at(members["window"], "window") if "window" in members else None,
        "dry_run": flag_at(members.get("dry_run", True), "dry_run"),
        "trace_id": trace_id,
    }


def _strategies(members: Mapping[str, object]) -> tuple[str, ...]:
    """The limit is checked before duplicates are removed."""
    named = member(members, "strategies")
    if not isinstance(named, list) or not 1 <= len(named) <= STRATEGIES_MAX:
        raise invalid("strategies", f"must be a list of 1 to {STRATEGIES_MAX} ids.")
    return tuple(dict.fromkeys(strategy_id_at(one, f"strategies.{at}") for at, one in enumerate(named)))


def _params(members: Mapping[str, object]) -> dict[str, object]:
    params = object_at(members.get("params", {}), "params")
    metrics = list(METRICS)
    if "recalc_metrics" in params:
        given = texts_at(params["recalc_metrics"], "params.recalc_metrics", most=10, chars_max=64)
        check_known(given, "params.recalc_metrics", METRICS)
        metrics = list(given)
    return {
        "recalc_metrics": metrics,
        "retrain": flag_at(params.get("retrain", False), "params.retrain"),
    }


def _filter(members: Mapping[str, object]) -> StrategyFilter:
    wanted = object_at(member(members, "filter"), "filter")
    given = {
        name: _values(wanted[name], f"filter.{name}")
        for name in StrategyFilter.__struct_fields__
        if name in wanted
    }
    check_known(given.get("health", ()), "filter.health", tuple(StrategyHealth))
    return StrategyFilter(**given)


def _values(value: object, place: str) -> tuple[str, ...]:
    """An empty list would match nothing, so it is refused as a mistake."""
    values = texts_at(value, place, most=FILTER_VALUES_MAX, chars_max=256)
    if not values:
        raise invalid(place, "is empty; name what it may be, or leave it out.")
    return values
