"""Ranges, tags and preferences in headers: what RFC 9110 says, value by value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_api.responses.byte_ranges import Part, RangeRequest, is_known, is_same, wanted_part
from pyoco_server.http_api.responses.negotiation import best_kind

KINDS = ("application/json", "application/x-ndjson", "text/plain")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, RangeRequest.WHOLE),
        ("bytes=0-", Part(0, 10)),
        ("bytes=0-0", Part(0, 1)),
        ("bytes=3-5", Part(3, 6)),
        ("bytes=3-99", Part(3, 10)),
        ("bytes=9-", Part(9, 10)),
        ("bytes=-3", Part(7, 10)),
        ("bytes=-99", Part(0, 10)),
        ("Bytes=1-2", Part(1, 3)),
        (" bytes=1-2 ", Part(1, 3)),
        ("bytes=007-8", Part(7, 9)),
        ("bytes=10-", RangeRequest.NOTHING),
        ("bytes=10-20", RangeRequest.NOTHING),
        (f"bytes={'9' * 5000}-", RangeRequest.NOTHING),
        ("bytes=-0", RangeRequest.NOTHING),
        ("bytes=5-2", RangeRequest.WHOLE),
        ("bytes=-", RangeRequest.WHOLE),
        ("bytes=", RangeRequest.WHOLE),
        ("bytes=a-b", RangeRequest.WHOLE),
        ("bytes=1", RangeRequest.WHOLE),
        ("bytes 1-2", RangeRequest.WHOLE),
        ("bytes=0-1,3-4", RangeRequest.WHOLE),
        ("lines=0-1", RangeRequest.WHOLE),
        ("bytes=+1-2", RangeRequest.WHOLE),
        ("bytes=1-2x", RangeRequest.WHOLE),
        ("bytes=\u0661-", RangeRequest.WHOLE),
    ],
)
def test_which_part_of_ten_bytes_is_wanted(header: str | None, expected: Part | RangeRequest) -> None:
    assert wanted_part(header, 10) == expected


def test_of_nothing_no_part_can_be_had() -> None:
    assert wanted_part("bytes=0-", 0) is RangeRequest.NOTHING
    assert wanted_part("bytes=-5", 0) is RangeRequest.NOTHING
    assert wanted_part(None, 0) is RangeRequest.WHOLE


@given(st.text(alphabet="bytes=-,0123456789 ", max_size=30), st.integers(0, 50))
def test_whatever_is_sent_the_part_is_there(header: str, size: int) -> None:
    part = wanted_part(header, size)
    assert part in RangeRequest if isinstance(part, RangeRequest) else 0 <= part.start < part.stop <= size


@pytest.mark.parametrize(
    ("header", "known"),
    [
        (None, False),
        ("*", True),
        (' "t" ', True),
        ('"other"', False),
        ('"other", "t"', True),
        ('W/"t"', True),
        ('"a,b" , W/"t"', True),
        ('"x""t"', False),
        ("t", False),
        ("", False),
    ],
)
def test_which_tags_are_known(header: str | None, known: bool) -> None:
    assert is_known(header, '"t"') is known


@pytest.mark.parametrize(
    ("header", "same"),
    [
        (None, True),
        ('"t"', True),
        ('W/"t"', False),
        ('"u"', False),
        ("*", False),
        ("Wed, 21 Oct 2015 07:28:00 GMT", False),
    ],
)
def test_a_part_is_given_only_of_the_very_same(header: str | None, same: bool) -> None:
    assert is_same(header, '"t"') is same


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("text/*", "text/plain"),
        ("text/plain", "text/plain"),
        ("Application/X-NDJSON", "application/x-ndjson"),
        ("application/x-ndjson, */*", "application/x-ndjson"),
        ("application/x-ndjson;q=0.5, application/json;q=0.4", "application/x-ndjson"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"),
        ("*/*, application/json;q=0", "application/x-ndjson"),
        ("application/problem+json", "application/json"),
        ("application/json;q=0", None),
        ("image/png", None),
        ("text/plain;q=nonsense", None),
    ],
)
def test_what_is_liked_best(accept: str | None, kind: str | None) -> None:
    assert best_kind(accept, KINDS) == kind
