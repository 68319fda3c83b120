"""The catalogue: strategies and profiles of thresholds. One error refuses a whole catalogue file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

import msgspec
import yaml

from pyoco_server.errors import Invalid
from pyoco_server.json_value import JsonObject
from pyoco_server.recheck.checks import flag_at, invalid, member, object_at, text_at, texts_at
from pyoco_server.recheck.thresholds import DEFAULT_PROFILE, Rule, parse_profiles

FLOW = "pdca_recheck"
STRATEGIES_MAX = 200_000
ID_CHARS_MAX = 128
TEXT_CHARS_MAX = 256
TAGS_MAX = 32
TAG_CHARS_MAX = 64
METADATA_BYTES_MAX = 16_384

_ID = re.compile(rf"[a-z0-9._-]{{1,{ID_CHARS_MAX}}}")


class Strategy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    title: str
    instrument: str | None = None
    enabled: bool = True
    tags: tuple[str, ...] = ()
    owner: str | None = None
    metadata: JsonObject = {}
    flow: str = FLOW
    threshold_profile: str = DEFAULT_PROFILE


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


def _loaded(text: str) -> object:
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


def is_strategy_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def strategy_id_at(value: object, place: str) -> str:
    if not isinstance(value, str) or not is_strategy_id(value):
        raise invalid(place, f"must match ^[a-z0-9._-]+$ with at most {ID_CHARS_MAX} characters.")
    return value


def parse_strategy(value: object, place: str, profiles: Collection[str]) -> Strategy:
    """A complete entry: members that are left out get their default."""
    entry = object_at(value, place)
    strategy_id = strategy_id_at(member(entry, "id"), f"{place}.id")
    profile = text_at(entry.get("threshold_profile", DEFAULT_PROFILE), f"{place}.threshold_profile", 1, 64)
    if profile != DEFAULT_PROFILE and profile not in profiles:
        raise invalid(f"{place}.threshold_profile", f"names {profile!r}, which there is not.")
    return Strategy(
        id=strategy_id,
        title=_named(entry.get("title", strategy_id), f"{place}.title") or strategy_id,
        instrument=_named(entry.get("instrument"), f"{place}.instrument"),
        enabled=flag_at(entry.get("enabled", True), f"{place}.enabled"),
        tags=texts_at(entry.get("tags", []), f"{place}.tags", most=TAGS_MAX, chars_max=TAG_CHARS_MAX),
        owner=_named(entry.get("owner"), f"{place}.owner"),
        metadata=_metadata(entry.get("metadata", {}), f"{place}.metadata"),
        flow=_flow(entry.get("flow", FLOW), f"{place}.flow"),
        threshold_profile=profile,
    )


def _named(value: object, place: str) -> str | None:
    """Normalised to NFC, so that a search finds it in any Unicode form."""
    return None if value is None else unicodedata.normalize("NFC", text_at(value, place, 1, TEXT_CHARS_MAX))


def _flow(value: object, place: str) -> str:
    if not text_at(value, place, 1, TEXT_CHARS_MAX).strip():
        raise invalid(place, "must name a flow.")
    return str(value)


def _metadata(value: object, place: str) -> dict[str, object]:
    metadata = dict(object_at(value, place))
    try:
        size = len(msgspec.json.encode(metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid(place, "must be what JSON can say.") from error
    if size > METADATA_BYTES_MAX:
        raise invalid(place, f"has {size} bytes; at most {METADATA_BYTES_MAX} are kept.")
    return metadata
