"""Judges the output of a flow. A metric that is missing or not a number is null.

A strategy without a `metrics` object has failed, for any reason, and its health is unknown.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pyoco_server.canonical_json import digest
from pyoco_server.recheck.records import StrategyResult
from pyoco_server.recheck.thresholds import METRICS, Profile, StrategyHealth, health_of

KINDS = ("chart", "report", "csv", "other")
ARTIFACTS_MAX = 16
ARTIFACT_BYTES_MAX = 8 * 2**20
ERROR_CHARS_MAX = 500
NAME_CHARS_MAX = 200

_CONTENT_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}(; ?[A-Za-z0-9=_\" -]{1,60})?"
)


class ReturnedArtifact(NamedTuple):
    """An artifact that a flow returned, with its bytes."""

    kind: str
    name: str
    content_type: str
    content: bytes


def returned_by_strategy(output: object, strategies: Sequence[str]) -> dict[str, object]:
    """The part of the output for each strategy. With several last tasks, each may have some strategies."""
    if not isinstance(output, dict):
        return {}
    named = {one: output[one] for one in strategies if one in output}
    for part in output.values() if len(named) < len(strategies) else ():
        if isinstance(part, dict):
            named |= {one: part[one] for one in strategies if one in part and one not in named}
    return named


def judge(strategy: str, returned: object, profile: Profile) -> StrategyResult:
    metrics = returned.get("metrics") if isinstance(returned, dict) else None
    if not isinstance(metrics, dict):
        return failed_result(strategy, _why(returned))
    measured = {name: _number(metrics.get(name)) for name in METRICS}
    health = health_of(measured, profile)
    return StrategyResult(
        strategy=strategy, health=health, metrics=measured, digest=_digest(measured, health)
    )


def failed_result(strategy: str, why: str) -> StrategyResult:
    nothing: dict[str, float | None] = dict.fromkeys(METRICS)
    return StrategyResult(
        strategy=strategy,
        health=StrategyHealth.UNKNOWN,
        metrics=nothing,
        digest=_digest(nothing, StrategyHealth.UNKNOWN),
        error=why[:ERROR_CHARS_MAX],
    )


def artifacts_in(returned: object) -> list[ReturnedArtifact]:
    """The artifacts with a content within the limits of number and size."""
    listed = returned.get("artifacts") if isinstance(returned, dict) else None
    return list(_attached(listed))[:ARTIFACTS_MAX] if isinstance(listed, list) else []


def _attached(listed: list[object]) -> Iterator[ReturnedArtifact]:
    for one in listed:
        if not isinstance(one, dict):
            continue
        content = _content(one)
        if content is None or len(content) > ARTIFACT_BYTES_MAX:
            continue
        kind, name, content_type = one.get("kind"), one.get("name"), one.get("content_type")
        yield ReturnedArtifact(
            kind=kind if kind in KINDS else "other",
            name=name[:NAME_CHARS_MAX] if isinstance(name, str) and name else "artifact",
            content_type=_type(content_type),
            content=content,
        )


def _content(artifact: Mapping[str, object]) -> bytes | None:
    text, encoded = artifact.get("content"), artifact.get("content_base64")
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    if not isinstance(encoded, str):
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None


def _type(value: object) -> str:
    is_usable = isinstance(value, str) and _CONTENT_TYPE.fullmatch(value)
    return str(value) if is_usable else "application/octet-stream"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _why(returned: object) -> str:
    if isinstance(returned, dict) and isinstance(returned.get("error"), str) and returned["error"]:
        return str(returned["error"])
    return "the flow returned no metrics for it"


def _digest(metrics: Mapping[str, float | None], health: StrategyHealth) -> str:
    return digest({"metrics": dict(metrics), "health": health.value}, exclude=())
