"""From page to page through runs that change meanwhile: none is lost, and none comes twice as it was.

Pages go from the latest change down, as lists do. A run that changes while a client pages moves to the front,
where the reader has been already. So the place remembers the end of the log as it was when the round began:
at the bottom the next round begins with what has changed since then, and so on until nothing has. A run that
was shown comes again only if it has changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyoco_server.read_model.run_rows import FoundRun


class PagePosition(NamedTuple):
    """Still to come of this round: what changed last above the one and below the other. `end`: of the log."""

    above: int
    below: int
    end: int


# Of what changed last above the first and below the second sequence, so many, the latest first.
Read = Callable[[int, int, int], list[FoundRun]]


def next_page(
    read: Read, limit: int, place: PagePosition | None, end: int
) -> tuple[list[FoundRun], PagePosition | None]:
    """The page at this place (None: the first one), and where to go on. `end`: of the log, as of now."""
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
