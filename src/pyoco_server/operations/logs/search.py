"""Which lines match a search: by text, by pattern, by task, by time. Decides; does not read.

Patterns are RE2. The time of a search grows with the text times the size of the compiled program, so that
size is limited. The stored bytes of a line are searched first; a line is decoded only if it can match.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec
import re2

from pyoco_server.errors import Invalid
from pyoco_server.operations.logs.cursors import LogPosition
from pyoco_server.store.logs.chunks import Chunk
from pyoco_server.store.logs.writer import LogEntry

TEXT_CHARS_MAX = 1_000
PATTERN_MEMORY_BYTES = 2 * 2**20
# For a first compilation, which is enough for a pattern of the most steps. RE2 holds the interpreter's lock
# while it compiles: with the memory above that could take 0.2 s.
FIRST_MEMORY_BYTES = 256 * 2**10
# Parsing one of them takes 0.1 ms, and most have half as many steps as a pattern may have.
UNICODE_CLASSES_MAX = 40
# Instructions of the compiled program. Each costs some nanoseconds for each byte of text: at this size a line
# of 8 KiB takes 0.1 to 0.3 s at worst.
PATTERN_STEPS_MAX = 2_000

_SMALLER = (
    "Use smaller counted repetitions ({n,m}), fewer alternatives, or narrower classes than \\p{…}; "
    "or search for a plain text and leave regex out."
)


class Sought(NamedTuple):
    """Every member that is set must match. `since` is an instant as lines have it."""

    text: str | None = None
    is_pattern: bool = False
    task: str | None = None
    since: str | None = None


class Looked(NamedTuple):
    """`lines` that match, as they are stored, and the last position that was searched."""

    lines: list[bytes]
    place: LogPosition


class _Pattern(Protocol):
    """A compiled pattern of RE2, whose module has no types. The sizes are in steps."""

    programsize: int
    reverseprogramsize: int

    def search(self, text: str) -> object | None: ...


class LogSearch:
    """May be used in any thread, but only in one at a time."""

    def __init__(self, sought: Sought) -> None:
        self._sought = sought
        self._pattern = _pattern(sought.text) if sought.is_pattern and sought.text is not None else None
        plain = sought.text if self._pattern is None else None
        self._needles = [_as_stored(text) for text in (plain, sought.task) if text]

    def look(self, chunks: Sequence[Chunk], after: LogPosition, room: int, until: float) -> Looked:
        """From the line after `after`, up to `room` matches or the instant `until` (of `time.monotonic`).

        At least one line is searched, so that every call makes progress.
        """
        found: list[bytes] = []
        place = after
        for chunk in chunks:
            if chunk.last_line <= place.line:
                continue
            if not all(needle in chunk.data for needle in self._needles):
                place = LogPosition(chunk.last_line, chunk.seq)
                continue
            begin = max(0, place.line + 1 - chunk.line)
            for number, line in enumerate(chunk.data.splitlines()[begin:], chunk.line + begin):
                if self._matches(line):
                    found.append(line)
                place = LogPosition(number, chunk.seq)
                if len(found) >= room or time.monotonic() >= until:
                    return Looked(found, place)
        return Looked(found, place)

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


_decode = msgspec.json.Decoder(LogEntry).decode


def _as_stored(text: str) -> bytes:
    """JSON encodes each character independently of its neighbours."""
    return msgspec.json.encode(text)[1:-1]


def _pattern(text: str) -> _Pattern:
    if text.count("\\p") + text.count("\\P") > UNICODE_CLASSES_MAX:
        raise _refused(f"q has more than {UNICODE_CLASSES_MAX} classes like \\p{{L}}. {_SMALLER}")
    first = _compiled(text, FIRST_MEMORY_BYTES)
    steps = first.programsize
    if steps <= PATTERN_STEPS_MAX:
        steps = max(steps, first.reverseprogramsize)
    if steps > PATTERN_STEPS_MAX:
        raise _refused(
            f"q is a pattern of {steps} steps when compiled; at most {PATTERN_STEPS_MAX} are searched with. "
            f"{_SMALLER}"
        )
    return _compiled(text, PATTERN_MEMORY_BYTES)


def _compiled(text: str, memory_bytes: int) -> _Pattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_bytes
    try:
        compiled: _Pattern = re2.compile(text, options=options)
        return compiled
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        advice = f" {_SMALLER}" if "too large" in why or "repetition" in why else ""
        raise _refused(f"q is not a pattern of RE2: {why}.{advice}") from None
    finally:
        re2.purge()  # RE2 would keep the last 128 patterns and their memory


def _refused(message: str) -> Invalid:
    return Invalid.at(["query", "q"], message)
