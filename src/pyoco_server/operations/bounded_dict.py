"""A bound for dictionaries that are caches: the entry that was put longest ago is evicted first."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def put_bounded(cache: dict[K, V], key: K, value: V, entries_max: int) -> None:
    """Put an entry at the end, and evict the first ones so that at most `entries_max` are left."""
    cache.pop(key, None)
    while len(cache) >= entries_max:
        del cache[next(iter(cache))]
    cache[key] = value
