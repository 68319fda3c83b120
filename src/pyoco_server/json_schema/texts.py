"""What a schema says about a text: its length, a pattern, a format. Pure.

Patterns are searched by RE2, which needs time in proportion to the text, whatever the pattern is.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import re2

PATTERN_MEMORY_BYTES = 256 * 1024
PATTERN_CHARS_MAX = 1000
# The cost of one step of a check (see `check`) in characters that a pattern is searched in.
CHARS_PER_STEP = 50
STEPS_PER_PATTERN_CHAR = 5
FORMATTED_CHARS_MAX = 64

_FORMATS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "date": ("a date such as 2026-01-31", datetime.date.fromisoformat),
    "date-time": ("a date and time such as 2026-01-31T09:30:00Z", datetime.datetime.fromisoformat),
    "time": ("a time such as 09:30:00", datetime.time.fromisoformat),
    "uuid": ("a UUID", uuid.UUID),
}


class _Pattern(Protocol):
    def search(self, text: str) -> object: ...


class Patterns:
    """The compiled patterns of one check."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._compiled: dict[str, _Pattern | None] = {}

    def matches(self, pattern: str, text: str) -> bool:
        """Also true for a pattern that is too long or that RE2 does not know: it restricts nothing."""
        if len(pattern) > PATTERN_CHARS_MAX:
            return True
        if pattern not in self._compiled:
            self._count(len(pattern) * STEPS_PER_PATTERN_CHAR)
            self._compiled[pattern] = _compiled(pattern)
        compiled = self._compiled[pattern]
        self._count(len(text) // CHARS_PER_STEP)
        return compiled is None or bool(compiled.search(text))


def text_problems(schema: Mapping[str, object], text: str, patterns: Patterns) -> Iterator[str]:
    match schema:
        case {"minLength": int(least)} if len(text) < least:
            yield f"must have at least {least} characters"
    match schema:
        case {"maxLength": int(most)} if len(text) > most:
            yield f"must have at most {most} characters"
    match schema:
        case {"pattern": str(pattern)} if not patterns.matches(pattern, text):
            yield f"must match the pattern {pattern[:100]}"
    match schema:
        case {"format": str(name)} if name in _FORMATS and not _is_formatted(name, text):
            yield f"must be {_FORMATS[name][0]}"


def _is_formatted(name: str, text: str) -> bool:
    if len(text) > FORMATTED_CHARS_MAX:
        return False
    try:
        _FORMATS[name][1](text)
    except ValueError:
        return False
    return True


def _compiled(pattern: str) -> _Pattern | None:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES
    try:
        compiled: _Pattern = re2.compile(pattern, options=options)
        return compiled
    except re2.error:
        return None
    finally:
        re2.purge()  # RE2 would keep the last 128 patterns and their memory
