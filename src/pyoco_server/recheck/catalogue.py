"""Parses a catalogue file: strategies and profiles of thresholds. One error refuses the whole file."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import yaml

from pyoco_server.errors import Invalid
from pyoco_server.recheck.checks import invalid, object_at
from pyoco_server.recheck.strategies import Strategy, parse_strategy
from pyoco_server.recheck.thresholds import Rule, parse_profiles

STRATEGIES_MAX = 200_000


class Catalogue(NamedTuple):
    strategies: list[Strategy]
    profiles: dict[str, dict[str, Rule]]


def parse_catalogue(text: str) -> Catalogue:
    written = object_at(_loaded(text), "the catalogue")
    profiles = parse_profiles(written.get("threshold_profiles") or {})
    entries = written.get("strategies")
    if not isinstance(entries, list) or len(entries) > STRATEGIES_MAX:
        raise invalid("strategies", f"must be a list of at most {STRATEGIES_MAX} entries.")
    strategies = [parse_strategy(one, f"strategies.{at}", profiles) for at, one in enumerate(entries)]
    _check_once(strategies)
    return Catalogue(strategies, profiles)


def _loaded(text: str) -> Any:
    try:
        return msgspec.yaml.decode(text)
    except (msgspec.MsgspecError, yaml.YAMLError, RecursionError) as error:
        raise Invalid(f"The catalogue is not YAML: {error}.") from error


def _check_once(strategies: list[Strategy]) -> None:
    seen: set[str] = set()
    for one in strategies:
        if one.id in seen:
            raise invalid("strategies", f"has {one.id!r} twice.")
        seen.add(one.id)
