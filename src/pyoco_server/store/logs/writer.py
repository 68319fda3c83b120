"""Append the output of runs: one subject per run, chunks of whole lines, at the expected end.

The bytes of a chunk are its lines as they are served, one JSON object a line. Its headers contain its
position in the log of the run: the first line, and the bytes and characters of text before it. So a position
is found by headers alone, and a range of bytes is a slice of chunks. A writer that has lost its claim finds a
greater fence at the end and stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream, StoredMessage
from pyoco_server.jetstream.errors import AnswerLost, WrongSequence
from pyoco_server.jetstream.headers import header_block
from pyoco_server.store.logs.chunks import Chunk, chunk_of

APPEND_TRIES_MAX = 3


class LogLine(NamedTuple):
    """A line to append. `stream`: stdout, stderr, logging, or system for notices of this server."""

    at: float
    stream: str
    text: str
    task: str | None = None
    attempt: int | None = None
    level: str | None = None


class LogEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line as it is stored and served. `seq` counts from 1 and has no gaps."""

    seq: int
    timestamp: str
    message: str
    stream: str
    task: str | None = None
    attempt: int | None = None
    level: str | None = None


class LogEnd(NamedTuple):
    """The end of the log of a run, and the fence of its last writer."""

    seq: int = 0
    fence: int = 0
    lines: int = 0
    size: int = 0
    text_size: int = 0
    omitted: int = 0


class LogMoved(Exception):
    """Another writer appended first. `now` is the current end."""

    def __init__(self, now: LogEnd) -> None:
        super().__init__("the log has moved on")
        self.now = now


_encode_entry = msgspec.json.Encoder().encode
_decode_entry = msgspec.json.Decoder(LogEntry).decode


class Logs:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.logs_stream
        self._prefix = config.logs_subject_prefix
        # Set while appends are not answered: the stream has no leader, or the broker is unavailable.
        self.silent = asyncio.Event()

    async def end(self, run_id: str) -> LogEnd:
        last = await self._jetstream.last_at_leader(self._stream, self._subject(run_id))
        return _end_of(last) if last else LogEnd()

    async def has(self, run_id: str, end: LogEnd) -> bool:
        """Whether the log still has the chunk that ends there. If it expired, so did all before it."""
        if not end.seq:
            return True
        found = await self._jetstream.at_leader(self._stream, end.seq)
        return found is not None and found.subject == self._subject(run_id) and _end_of(found) == end

    async def append(
        self,
        run_id: str,
        at: LogEnd,
        lines: Sequence[LogLine],
        *,
        fence: int,
        chunk_id: str,
        omitted: int = 0,
    ) -> LogEnd:
        """Append lines and return the new end. Raises LogMoved. If the answer is lost, the log is read.

        `omitted`: how many more lines were left out here.
        """
        data, text_size = encode_lines(lines, at.lines + 1)
        headers = header_block(
            Nats_Expected_Last_Subject_Sequence=at.seq,
            Pyoco_Chunk=chunk_id,
            Pyoco_Fence=fence,
            Pyoco_Line=at.lines + 1,
            Pyoco_Lines=len(lines),
            Pyoco_Byte=at.size,
            Pyoco_Text_Byte=at.text_size,
            Pyoco_Text_Bytes=text_size,
            Pyoco_Omitted=at.omitted + omitted,
        )
        return LogEnd(
            seq=await self._publish(run_id, data, headers, chunk_id),
            fence=fence,
            lines=at.lines + len(lines),
            size=at.size + len(data),
            text_size=at.text_size + text_size,
            omitted=at.omitted + omitted,
        )

    async def entries(self, run_id: str) -> list[LogEntry]:
        """The whole log. To read a part of a long one, use `LogReader.from_place`."""
        chunks = await self._jetstream.after(self._stream, self._subject(run_id), 0)
        return [entry for chunk in chunks for entry in decode_lines(chunk.data)]

    async def erase(self, run_id: str) -> None:
        await self._jetstream.purge(self._stream, self._subject(run_id))

    async def _publish(self, run_id: str, data: bytes, headers: bytes, chunk_id: str) -> int:
        subject = self._subject(run_id)
        for tries_left in reversed(range(APPEND_TRIES_MAX)):
            try:
                stored = (await self._jetstream.publish(subject, data, headers)).seq
                self.silent.clear()
                return stored
            except AnswerLost:
                self.silent.set()
                # If the first one arrived, the next try is refused, and the last chunk has our `chunk_id`.
                if not tries_left:
                    raise
            except WrongSequence:
                last = await self._jetstream.last_at_leader(self._stream, subject)
                if last is None or last.header(b"Pyoco-Chunk") != chunk_id:
                    raise LogMoved(_end_of(last) if last else LogEnd()) from None
                return last.seq
        raise AssertionError("unreachable")

    def _subject(self, run_id: str) -> str:
        return f"{self._prefix}.{run_id}"


def encode_lines(lines: Iterable[LogLine], first: int) -> tuple[bytes, int]:
    """The bytes as they are stored and served, and the size of the texts alone."""
    parts = []
    text_size = 0
    for seq, line in enumerate(lines, first):
        text = line.text
        entry = LogEntry(seq, _moment(line.at), text, line.stream, line.task, line.attempt, line.level)
        parts.append(_encode_entry(entry))
        text_size += (len(text) if text.isascii() else len(text.encode())) + 1
    parts.append(b"")
    return b"\n".join(parts), text_size


def _moment(at: float) -> str:
    micros = round(at * 1e6)  # rounds as datetime does, except for exact halves, which no clock returns
    return f"{_second(micros // 1_000_000)}.{micros % 1_000_000:06d}Z"


@lru_cache(maxsize=64)
def _second(at: int) -> str:
    """Cached: nearly every line has the same second as the line before."""
    return datetime.fromtimestamp(at, UTC).isoformat()[:-6]


def decode_lines(data: bytes) -> list[LogEntry]:
    return [_decode_entry(line) for line in data.splitlines()]


def _end_of(message: StoredMessage) -> LogEnd:
    return end_of(chunk_of(message))


def end_of(chunk: Chunk) -> LogEnd:
    return LogEnd(
        seq=chunk.seq,
        fence=chunk.fence,
        lines=chunk.last_line,
        size=chunk.end_byte,
        text_size=chunk.end_text,
        omitted=chunk.omitted,
    )
