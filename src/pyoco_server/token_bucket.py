"""A token bucket: a limit of requests per minute, refilled evenly. Pure: the caller passes the time."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

WINDOW_SEC = 60.0
# Tokens are floats. A caller that waited exactly `retry_after_sec` may lack this much of a token.
ROUNDING = 1e-5


class BucketLevel(msgspec.Struct, frozen=True, array_like=True):
    """How full a bucket was at an instant."""

    tokens: float
    at: float


class Taken(NamedTuple):
    """`remaining`: how many more requests are allowed now. `reset_sec`: until the bucket is full again."""

    allowed: bool
    limit: int
    remaining: int
    reset_sec: int
    retry_after_sec: int


def take(level: BucketLevel | None, per_minute: int, now: float) -> tuple[BucketLevel, Taken]:
    """The level after one more request. If it is refused, only the time of the level changes."""
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
    """Clocks of gateways differ slightly, so the time of a bucket never goes back."""
    if level is None:
        return BucketLevel(float(per_minute), now)
    at = max(level.at, now)
    return BucketLevel(min(float(per_minute), level.tokens + (at - level.at) * per_minute / WINDOW_SEC), at)
