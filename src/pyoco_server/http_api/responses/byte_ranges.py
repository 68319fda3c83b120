"""`Range`, `If-Range`, `If-None-Match` (RFC 9110): which part of a representation is requested. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

_ONE_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)", re.IGNORECASE)
_TAG = re.compile(r'\s*(W/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')
DIGITS_MAX = 18  # larger than any size


class Part(NamedTuple):
    """The bytes from `start` to `stop`, exclusive."""

    start: int
    stop: int


class RangeRequest(Enum):
    WHOLE = "all of it"
    NOTHING = "a part that is not there"


def wanted_part(header: str | None, size: int) -> Part | RangeRequest:
    """One range of bytes. Invalid headers, other units and several ranges request the whole."""
    found = _ONE_RANGE.fullmatch(header.strip()) if header is not None else None
    if found is None:
        return RangeRequest.WHOLE
    first, last = found.groups()
    if not first:
        return _last_bytes(last, size)
    start, end = _number(first), _number(last) if last else None
    if end is not None and end < start:
        return RangeRequest.WHOLE
    if start >= size:
        return RangeRequest.NOTHING
    return Part(start, size if end is None else min(end + 1, size))


def is_same(if_range: str | None, tag: str) -> bool:
    """Whether a part may be sent: the caller has a part of the same representation, or sends no condition."""
    return if_range is None or if_range.strip() == tag


def is_known(if_none_match: str | None, tag: str) -> bool:
    """Weak comparison, as RFC 9110 requires; `*` matches every representation."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or tag in _tags(if_none_match)


def _last_bytes(count: str, size: int) -> Part | RangeRequest:
    if not count:
        return RangeRequest.WHOLE
    if _number(count) == 0 or size == 0:
        return RangeRequest.NOTHING
    return Part(max(0, size - _number(count)), size)


def _number(digits: str) -> int:
    short = digits.lstrip("0")
    return int(short or "0") if len(short) <= DIGITS_MAX else 10**DIGITS_MAX


def _tags(header: str) -> Iterator[str]:
    place = 0
    while found := _TAG.match(header, place):
        yield found.group(2)
        place = found.end()
