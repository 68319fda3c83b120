"""The output log of a run as it is stored: chunks with their position, and the search for one of them.

The headers of a chunk say which lines and bytes it has, so the stream is its own index. A line or a byte in
the middle is found by interpolation search over sequences: a few reads for a log of any length.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.jetstream.headers import number_of


class LogUnit(StrEnum):
    """The unit of a position in a log: lines, bytes as stored, or bytes of the texts alone."""

    LINE = "line"
    BYTE = "byte"
    TEXT = "text"


class Chunk(NamedTuple):
    """Whole lines. `line` is the number of the first, counted from 1; bytes are counted from 0.

    `omitted`: lines that were left out of the log up to here, because of a limit.
    """

    seq: int
    fence: int
    line: int
    lines: int
    byte: int
    text: int
    text_size: int
    omitted: int
    data: bytes

    @property
    def last_line(self) -> int:
        return self.line + self.lines - 1

    @property
    def end_byte(self) -> int:
        return self.byte + len(self.data)

    @property
    def end_text(self) -> int:
        return self.text + self.text_size

    def begins(self, by: LogUnit) -> int:
        return {LogUnit.LINE: self.line, LogUnit.BYTE: self.byte, LogUnit.TEXT: self.text}[by]

    def ends(self, by: LogUnit) -> int:
        """The first position after the chunk."""
        return {
            LogUnit.LINE: self.line + self.lines,
            LogUnit.BYTE: self.end_byte,
            LogUnit.TEXT: self.end_text,
        }[by]


def chunk_of(message: StoredMessage) -> Chunk:
    return parse_chunk(message.seq, message.headers, message.data)


def parse_chunk(seq: int, headers: bytes, data: bytes) -> Chunk:
    return Chunk(
        seq=seq,
        fence=number_of(headers, b"Pyoco-Fence"),
        line=number_of(headers, b"Pyoco-Line"),
        lines=number_of(headers, b"Pyoco-Lines"),
        byte=number_of(headers, b"Pyoco-Byte"),
        text=number_of(headers, b"Pyoco-Text-Byte"),
        text_size=number_of(headers, b"Pyoco-Text-Bytes"),
        omitted=number_of(headers, b"Pyoco-Omitted"),
        data=data,
    )


# The first chunk of the log at or after this sequence.
Probe = Callable[[int], Awaitable[Chunk | None]]


async def find(probe: Probe, first: Chunk, last: Chunk, by: LogUnit, place: int) -> Chunk:
    """The chunk with this position, or the next one; the last one for a position beyond the end."""
    if place < first.ends(by):
        return first
    if place >= last.begins(by):
        return last
    low, high, before = first, last, last.seq
    # No chunk of this log has a sequence from `before` up to `high`.
    halve = False
    while low.seq + 1 < before:
        seq = _guess(low, high, before, by, place, halve=halve)
        found = await probe(seq)
        halve = not halve
        if found is None or found.seq >= before:
            before = seq
        elif place < found.begins(by):
            high, before = found, seq
        elif place < found.ends(by):
            return found
        else:
            low = found
    return high


def _guess(low: Chunk, high: Chunk, before: int, by: LogUnit, place: int, *, halve: bool) -> int:
    """Interpolate, as if lines were spread evenly; every other time bisect, because they may not be."""
    room = before - low.seq - 1
    if halve:
        return low.seq + 1 + room // 2
    gap = max(1, high.begins(by) - low.ends(by))
    return low.seq + 1 + min(room - 1, room * (place - low.ends(by)) // gap)
