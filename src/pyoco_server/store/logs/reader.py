"""Read the output of a run: its extent, any part of it, and new chunks as they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import BATCH_MAX, JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.headers import number_of
from pyoco_server.store.logs.chunks import Chunk, LogUnit, chunk_of, find, parse_chunk

# Per request: enough for the throughput, and little is lost when the reader disconnects.
READ_BYTES = 1_048_576


class Span(NamedTuple):
    """From the oldest stored chunk to the newest."""

    first: Chunk
    last: Chunk

    @property
    def lines(self) -> int:
        """The number of the last line. Lines keep their numbers when older ones expire."""
        return self.last.last_line


OnChunk = Callable[[Chunk], None]


class LogReader:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._client = client
        self._jetstream = jetstream
        self._stream = config.logs_stream
        self._prefix = config.logs_subject_prefix
        self._live_prefix = config.live_logs_subject_prefix

    async def span(self, run_id: str, *, at_leader: bool = False) -> Span | None:
        """None for a log without lines. `at_leader`: with all lines that were appended before this call."""
        subject = self._subject(run_id)
        last_of = self._jetstream.last_at_leader if at_leader else self._jetstream.last
        first, last = await asyncio.gather(
            self._jetstream.first(self._stream, subject), last_of(self._stream, subject)
        )
        if last is None:
            return None
        newest = chunk_of(last)
        # A replica that lags may lack the first chunk: then the newest one is the first.
        oldest = chunk_of(first) if first is not None and first.seq <= last.seq else newest
        return Span(oldest, newest)

    async def from_place(
        self, run_id: str, span: Span, by: LogUnit, place: int, *, hint: int = 0
    ) -> AsyncGenerator[Chunk, None]:
        """Chunks up to the end of the span, beginning with the chunk that contains this place.

        `hint`: the sequence of a chunk at or before it, which saves the search.
        """

        async def probe(seq: int) -> Chunk | None:
            found = await self._jetstream.page(self._stream, self._subject(run_id), seq - 1, 1)
            return chunk_of(found[0]) if found else None

        begin = await probe(hint) if hint else None
        if begin is None or begin.begins(by) > place:
            begin = await find(probe, span.first, span.last, by, place)
        yield begin
        async for chunk in self._after(run_id, begin, span):
            yield chunk

    async def listen(self, run_id: str, on_chunk: OnChunk) -> int:
        """Call this with every chunk as it is stored. It is sent once; `from_place` reads missed ones."""

        def handle(_subject: bytes, _reply: bytes, headers: bytes, data: bytes) -> None:
            on_chunk(parse_chunk(number_of(headers, b"Nats-Sequence"), headers, data))

        return await self._client.listen(f"{self._live_prefix}.{run_id}", handle)

    async def unlisten(self, sid: int) -> None:
        await self._client.unlisten(sid)

    async def _after(self, run_id: str, begin: Chunk, span: Span) -> AsyncIterator[Chunk]:
        """The chunks after `begin` up to the end of the span, in pages of about the same size."""
        last = begin
        while last.seq < span.last.seq:
            count = min(BATCH_MAX, max(1, READ_BYTES // max(1, len(last.data))))
            page = await self._jetstream.page(self._stream, self._subject(run_id), last.seq, count)
            chunks = [chunk for chunk in map(chunk_of, page) if chunk.seq <= span.last.seq]
            if not chunks:
                raise Unavailable("The log is being cut back while it is read. Try again.")
            for chunk in chunks:
                yield chunk
            last = chunks[-1]

    def _subject(self, run_id: str) -> str:
        return f"{self._prefix}.{run_id}"
