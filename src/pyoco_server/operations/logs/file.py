"""A run's log as a file: bytes that only grow at the end, readable in any range.

When retention has removed the oldest lines, it is another file with another `tag`, and its bytes count from
the oldest line that is left. As lines of JSON it has the stored bytes; as text, the messages alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec

from pyoco_server.operations.logs.unwritten import log_span
from pyoco_server.store.logs.chunks import Chunk, LogUnit
from pyoco_server.store.logs.reader import Span
from pyoco_server.store.logs.writer import decode_lines
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store


class LogFile(msgspec.Struct, frozen=True):
    """The file as of now: `read` returns these bytes, also after more were added."""

    store: Store
    run_id: str
    by: LogUnit
    span: Span | None

    @property
    def size(self) -> int:
        return self.span.last.ends(self.by) - self._base if self.span else 0

    @property
    def tag(self) -> str:
        """Identifies exactly these bytes, on every gateway: the oldest chunk and the size."""
        return f"{self.by.value}-{self.span.first.seq if self.span else 0}-{self.size}"

    async def read(self, start: int, stop: int) -> AsyncIterator[bytes]:
        if self.span is None or start >= stop:
            return
        place, end = self._base + start, self._base + stop
        chunks = self.store.log_reader.from_place(self.run_id, self.span, self.by, place)
        async with aclosing(chunks):
            async for chunk in chunks:
                begins = chunk.begins(self.by)
                if begins >= end:
                    return
                yield self._bytes_of(chunk)[max(0, place - begins) : end - begins]

    @property
    def _base(self) -> int:
        return self.span.first.begins(self.by) if self.span else 0

    def _bytes_of(self, chunk: Chunk) -> bytes:
        if self.by is LogUnit.BYTE:
            return chunk.data
        return b"".join(entry.message.encode() + b"\n" for entry in decode_lines(chunk.data))


async def log_file(store: Store, stored: StoredRun, *, as_text: bool) -> LogFile:
    """`stored` was read before this call: if the run had ended by then, its whole output is in the file."""
    run = stored.run
    span = await log_span(store, run, at_leader=run.is_terminal)
    return LogFile(store, run.run_id, LogUnit.TEXT if as_text else LogUnit.BYTE, span)
