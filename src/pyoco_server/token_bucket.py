"""A token bucket: so many requests at once, refilled evenly over a minute. Pure; time comes in."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

WINDOW_SEC = 60.0
# Refilling is counted in floats: so much may be missing from a token for whoever waited as long as was said.
ROUNDING = 1e-5


class BucketLevel(msgspec.Struct, frozen=True, array_like=True):
    """How full a bucket was at an instant."""

    tokens: float
    at: float


class Taken(NamedTuple):
    """`remaining`: how many more would be let through now; `reset_sec`: until it is full again."""

    allowed: bool
    limit: int
    remaining: int
    reset_sec: int
    retry_after_sec: int


def take(level: BucketLevel | None, per_minute: int, now: float) -> tuple[BucketLevel, Taken]:
    """The level after one more was asked for; unchanged but for the time when it was refused."""
    filled = level_at(level, per_minute, now)
    allowed = filled.tokens >= 1.0 - ROUNDING
    left = BucketLevel(filled.tokens - 1.0, filled.at) if allowed else filled
    rate = per_minute / WINDOW_SEC
    return left, Taken(
        allowed=allowed,
        limit=per_minute,
        remaining=int(left.tokens + ROUNDING),
        reset_sec=math.ceil((per_minute - left.tokens) / rate),
        retry_after_sec=0 if allowed else max(1, math.ceil((1.0 - left.tokens) / rate)),
    )


def level_at(level: BucketLevel | None, per_minute: int, now: float) -> BucketLevel:
    """Clocks of gateways differ a little: time never runs backwards in a bucket."""
    if level is None:
        return BucketLevel(float(per_minute), now)
    at = max(level.at, now)
    return BucketLevel(min(float(per_minute), level.tokens + (at - level.at) * per_minute / WINDOW_SEC), at)
