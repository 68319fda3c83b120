"""Paging through runs that change meanwhile: every history of pages and changes, played on a list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.read_model.run_pages import PagePosition, next_page
from pyoco_server.read_model.run_rows import FoundRun


class Log:
    """Runs by the sequence of their last change."""

    def __init__(self, runs: int) -> None:
        self.end = 0
        self.last: dict[bytes, int] = {}
        for number in range(runs):
            self.change(b"%d" % number)

    def change(self, run: bytes) -> None:
        self.end += 1
        self.last[run] = self.end

    def read(self, above: int, below: int, most: int) -> list[FoundRun]:
        assert most > 0
        between = [FoundRun(seq, run) for run, seq in self.last.items() if above < seq < below]
        return sorted(between, reverse=True)[:most]

    def page(self, limit: int, place: PagePosition | None) -> tuple[list[FoundRun], PagePosition | None]:
        return next_page(self.read, limit, place, self.end)


# Between two pages: which runs change (numbers beyond those that exist begin new ones).
changes = st.lists(st.lists(st.integers(0, 14), max_size=6), max_size=12)


@settings(deadline=None, max_examples=400)
@given(st.integers(0, 10), st.integers(1, 5), changes)
def test_nothing_is_lost_and_nothing_comes_twice_as_it_was(
    runs: int, limit: int, between: list[list[int]]
) -> None:
    log = Log(runs)
    shown: list[FoundRun] = []
    place: PagePosition | None = None
    quiet = iter(between)
    while True:
        page, place = log.page(limit, place)
        assert len(page) <= limit
        shown += page
        if place is None:
            break
        for number in next(quiet, []):
            log.change(b"%d" % number)
    assert len(set(shown)) == len(shown)
    assert {found.state: found.seq for found in sorted(shown)} == log.last


def test_a_log_at_rest_is_read_from_its_end_to_its_beginning() -> None:
    log = Log(7)
    first, place = log.page(3, None)
    second, place = log.page(3, place)
    third, place = log.page(3, place)
    assert [found.seq for found in first + second + third] == [7, 6, 5, 4, 3, 2, 1]
    assert place is None


def test_a_full_last_page_says_so() -> None:
    assert Log(3).page(3, None)[1] is None
    assert Log(0).page(3, None) == ([], None)


def test_a_place_of_another_gateway_is_good_here() -> None:
    """It may know less of the log for a moment; nothing is then there twice or missing."""
    log = Log(5)
    _, place = log.page(2, None)
    assert place is not None
    ahead = place._replace(end=place.end + 10)
    page, goes_on = log.page(9, ahead)
    assert [found.seq for found in page] == [3, 2, 1]
    assert goes_on is None
