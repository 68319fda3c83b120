"""Random ids without a system call for each: seeded from the system, and again after a fork.

For names, not for secrets: unguessable values come from `secrets`.
"""

from __future__ import annotations

import os
import random
import time
from functools import lru_cache

_random = random.Random(os.urandom(32))
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _CROCKFORD for b in _CROCKFORD]
_UUID4_MASK = ~((0xF000 << 64) | (0xC000 << 48))
_UUID4_MARK = (0x4000 << 64) | (0x8000 << 48)


def new_uuid() -> str:
    """A random UUID (version 4)."""
    digits = f"{_random.getrandbits(128) & _UUID4_MASK | _UUID4_MARK:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_token() -> str:
    """Sixteen hexadecimal digits."""
    return f"{_random.getrandbits(64):016x}"


def new_ulid() -> str:
    """48 bits of time and 80 random bits in Crockford's alphabet: sorts by creation time."""
    high, low = _random.getrandbits(40), _random.getrandbits(40)
    return _instant(time.time_ns() // 1_000_000) + _eight_characters(high) + _eight_characters(low)


@lru_cache(maxsize=1)  # many ids are made in one millisecond
def _instant(milliseconds: int) -> str:
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in range(40, -1, -10)])


def _eight_characters(bits: int) -> str:
    pairs = _PAIRS
    return f"{pairs[bits >> 30]}{pairs[bits >> 20 & 1023]}{pairs[bits >> 10 & 1023]}{pairs[bits & 1023]}"
