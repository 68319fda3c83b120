"""The health of a strategy: rules about its metrics, by profile. A value at the boundary is healthy."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from pyoco_server.recheck.checks import invalid, object_at

METRICS = ("winrate", "sharpe", "max_dd")
DEFAULT_PROFILE = "default"
PROFILES_MAX = 100

_HOLDS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class StrategyHealth(StrEnum):
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


class Rule(msgspec.Struct, frozen=True):
    op: str
    value: float

    def holds(self, measured: float) -> bool:
        return _HOLDS[self.op](measured, self.value)


Profile = Mapping[str, Rule]
Profiles = Mapping[str, Profile]

BUILT_IN: Profile = {"winrate": Rule(">=", 0.52), "sharpe": Rule(">=", 0.80), "max_dd": Rule("<=", 0.10)}


def health_of(metrics: Mapping[str, float | None], profile: Profile) -> StrategyHealth:
    measured = {name: metrics.get(name) for name in profile}
    if any(value is not None and not profile[name].holds(value) for name, value in measured.items()):
        return StrategyHealth.DEGRADED
    return StrategyHealth.UNKNOWN if None in measured.values() else StrategyHealth.HEALTHY


def profile_of(name: str, profiles: Profiles) -> Profile:
    """For a profile that does not exist any more: the default, which the catalogue may redefine."""
    return profiles.get(name) or profiles.get(DEFAULT_PROFILE) or BUILT_IN


def parse_profiles(value: object) -> dict[str, dict[str, Rule]]:
    """From `{name: {metric: {op, value}}}` in a catalogue."""
    named = object_at(value, "threshold_profiles")
    if len(named) > PROFILES_MAX:
        raise invalid("threshold_profiles", f"has more than {PROFILES_MAX} profiles.")
    return {str(name): _rules(rules, f"threshold_profiles.{name}") for name, rules in named.items()}


def _rules(value: object, place: str) -> dict[str, Rule]:
    rules = object_at(value, place)
    strange = [metric for metric in rules if metric not in METRICS]
    if strange or not rules:
        raise invalid(place, f"needs rules for {', '.join(METRICS)}, and for nothing else.")
    return {metric: _rule(rule, f"{place}.{metric}") for metric, rule in rules.items()}


def _rule(value: object, place: str) -> Rule:
    rule = object_at(value, place)
    op, limit = rule.get("op"), rule.get("value")
    if op not in _HOLDS:
        raise invalid(f"{place}.op", f"must be one of {', '.join(_HOLDS)}.")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
        raise invalid(f"{place}.value", "must be a number.")
    return Rule(op, float(limit))
