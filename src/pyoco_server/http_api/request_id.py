"""ULIDs: 48 bits of time, 80 of chance, in Crockford's alphabet. Sortable by when they were made."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]


def new_ulid() -> str:
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    pairs = [_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)]
    return "".join(pairs)
