"""Paging through runs that change meanwhile: none is missed, and none is shown twice without a change.

Pages go from the latest change to the oldest. A run that changes while a client pages moves to the front,
which the client has already read. So the position contains the end of the log when the round began: after
the last page the next round begins with the runs that have changed since, until there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyoco_server.read_model.run_rows import FoundRun


class PagePosition(NamedTuple):
    """The rest of this round: last changes above `above` and below `below`. `end`: of the log."""

    above: int
    below: int
    end: int


# Runs whose last change is between these two sequences, at most so many, the latest first.
Read = Callable[[int, int, int], list[FoundRun]]


def next_page(
    read: Read, limit: int, place: PagePosition | None, end: int
) -> tuple[list[FoundRun], PagePosition | None]:
    """The page at this position (None: the first one), and the next position. `end`: of the log, now."""
    place = place or _round(above=0, end=end)
    found = read(place.above, place.below, limit + 1)
    if len(found) > limit:
        return found[:limit], place._replace(below=found[limit - 1].seq)
    if end <= place.end:
        return found, None
    place, before = _round(above=place.end, end=end), found
    found = read(place.above, place.below, limit + 1 - len(before))
    taken = found[: limit - len(before)]
    if len(found) == len(taken):
        return before + taken, None
    return before + taken, place._replace(below=taken[-1].seq) if taken else place


def _round(*, above: int, end: int) -> PagePosition:
    return PagePosition(above=above, below=end + 1, end=end)
