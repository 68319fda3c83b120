"""Which lines somebody is looking for: by text, by pattern, by task, by time. Decides; does not read.

Patterns are RE2's, whose time grows with the text and with nothing else: whatever is asked, nobody waits for
it. A line is looked at as it is stored first, and read only if what is searched for can be in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import re2

from pyoco_server.errors import Invalid
from pyoco_server.store.logs import Entry

TEXT_CHARS_MAX = 1_000
PATTERN_MEMORY_BYTES = 8 * 2**20


class Sought(NamedTuple):
    """Every member that is set must match. `since` is an instant as lines have it."""

    text: str | None = None
    is_pattern: bool = False
    task: str | None = None
    since: str | None = None


class Search:
    def __init__(self, sought: Sought) -> None:
        self._sought = sought
        self._pattern = _pattern(sought.text) if sought.is_pattern and sought.text is not None else None
        plain = sought.text if self._pattern is None else None
        self._needles = [_as_stored(text) for text in (plain, sought.task) if text]

    def matching(self, data: bytes) -> list[bytes]:
        """Of these lines, those that are looked for, as they are stored."""
        if not all(needle in data for needle in self._needles):
            return []
        return [line for line in data.splitlines() if self._matches(line)]

    def _matches(self, line: bytes) -> bool:
        if not all(needle in line for needle in self._needles):
            return False
        entry, sought = _decode(line), self._sought
        if sought.task is not None and entry.task != sought.task:
            return False
        if sought.since is not None and entry.timestamp < sought.since:
            return False
        if self._pattern is not None:
            return self._pattern.search(entry.message) is not None
        return sought.text is None or sought.text in entry.message


_decode = msgspec.json.Decoder(Entry).decode


def _as_stored(text: str) -> bytes:
    """JSON writes each character in its own way, whatever stands beside it."""
    return msgspec.json.encode(text)[1:-1]


def _pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES
    try:
        return re2.compile(text, options=options)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        message = f"q is not a pattern of RE2: {why}."
        problem = {"loc": ["query", "q"], "msg": message, "type": "value_error"}
        raise Invalid(message, details=[problem]) from None
