"""The order of the tests when several processes share them.

Slow tests wait for most of their time: for the end of a lease, an election, a broker that is away. If they
came where their folders come, all processes would wait at once, or the last one would begin when the others
have ended. So the first processes begin with the slow tests, and the others use the cores meanwhile. The
scheduler (`--dist worksteal`) gives each process an equal consecutive part of the tests; a process that has
ended takes tests from the ends of other parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

# Processes that begin with slow tests. With more of them the cores would be idle at the beginning.
SLOW_PROCESSES_MAX = 2

T = TypeVar("T")


def arrange(slow: Sequence[T], others: Sequence[T], processes: int) -> list[T]:
    """Slow tests at the beginning of the first parts. Neighbours stay together, for they share fixtures."""
    part = (len(slow) + len(others)) // processes
    parts = _split(slow, min(SLOW_PROCESSES_MAX, processes))
    left: Iterator[T] = chain(*(tests[part:] for tests in parts), others)
    filled = [[*tests[:part], *islice(left, max(part - len(tests), 0))] for tests in parts]
    return [*chain(*filled), *left]


def _split(tests: Sequence[T], count: int) -> list[Sequence[T]]:
    size = -(-len(tests) // count)
    return [tests[at * size : (at + 1) * size] for at in range(count)]
