"""Content negotiation: which of the offered types an `Accept` header prefers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

RANGES_MAX = 32  # of one header; the rest is ignored
# A client that accepts problem+json accepts JSON for responses that are not errors.
_MEANT = {"application/problem+json": "application/json"}


class _Range(NamedTuple):
    kind: str
    quality: float

    @property
    def precision(self) -> int:
        return 0 if self.kind == "*/*" else 1 if self.kind.endswith("/*") else 2


def best_kind(accept: str | None, offered: Sequence[str]) -> str | None:
    """One of those offered, the first of equals; None if none is acceptable."""
    if accept is None or not accept.strip():
        return offered[0]
    ranges = list(_ranges(accept))
    rated = [(_rated(kind, ranges), -place, kind) for place, kind in enumerate(offered)]
    (quality, _), _, kind = max(rated)
    return kind if quality > 0 else None


def _rated(kind: str, ranges: list[_Range]) -> tuple[float, int]:
    """The most precise matching range decides; at equal quality a named type is preferred."""
    fitting = [one for one in ranges if one.kind in (kind, kind.partition("/")[0] + "/*", "*/*")]
    if not fitting:
        return 0.0, 0
    precise = max(fitting, key=lambda one: (one.precision, one.quality))
    return precise.quality, precise.precision


def _ranges(accept: str) -> Iterator[_Range]:
    for item in accept.split(",")[:RANGES_MAX]:
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        yield _Range(_MEANT.get(kind, kind), _quality(parameters))


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
