"""A catalogue file: strategies and, in the same file, profiles of thresholds. Read whole or refused whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import yaml

from pyoco_server.errors import Invalid
from pyoco_server.recheck.checks import object_at, refused
from pyoco_server.recheck.strategies import Strategy, strategy_in
from pyoco_server.recheck.thresholds import Rule, profiles_in

STRATEGIES_MAX = 200_000


class Catalogue(NamedTuple):
    strategies: list[Strategy]
    profiles: dict[str, dict[str, Rule]]


def catalogue_in(text: str) -> Catalogue:
    written = object_at(_loaded(text), "the catalogue")
    profiles = profiles_in(written.get("threshold_profiles") or {})
    entries = written.get("strategies")
    if not isinstance(entries, list) or len(entries) > STRATEGIES_MAX:
        raise refused("strategies", f"must be a list of at most {STRATEGIES_MAX} entries.")
    strategies = [strategy_in(one, f"strategies.{at}", profiles) for at, one in enumerate(entries)]
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
            raise refused("strategies", f"has {one.id!r} twice.")
        seen.add(one.id)
