"""The log searches of a gateway: in threads, each with a budget, limited in number.

RE2 releases the interpreter's lock while it matches, and Python every few milliseconds, so a search does not
block the event loop. Searches are cut into slices and take turns on a few threads. When the time or the bytes
of a search are used up, it returns how far it came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from enum import StrEnum
from typing import NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations.concurrency import Concurrency
from pyoco_server.operations.logs.cursors import LogPosition
from pyoco_server.operations.logs.search import LogSearch, Looked
from pyoco_server.store.logs.chunks import Chunk

THREADS = 2
# The most that one slice may take; the current line is finished.
SLICE_SEC = 0.05
SLICE_BYTES = 262_144


class PausedBy(StrEnum):
    """Which part of its budget a search has used up."""

    TIME = "time"
    BYTES = "bytes"


class Searched(NamedTuple):
    """`place`: where to continue: after the last match if there may be more, else after all lines read."""

    lines: list[bytes]
    place: LogPosition
    paused_by: PausedBy | None


class LogSearches:
    """One for each gateway."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._time_sec = config.log_search_sec
        self._bytes_max = config.log_search_max_bytes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="log-search")
        self.concurrency = Concurrency(
            "log searches",
            per_caller=config.log_searches_per_caller,
            per_caller_setting="PYOCO_LOG_SEARCHES_PER_CALLER",
            total=config.log_searches_max,
            total_setting="PYOCO_LOG_SEARCHES_MAX",
        )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def through(
        self, chunks: AsyncIterator[Chunk], begin: int, limit: int, search: LogSearch
    ) -> Searched:
        """Search these chunks from line `begin` on. The caller holds a place in `concurrency`."""
        ends_at = time.monotonic() + self._time_sec
        found: list[bytes] = []
        place, size = LogPosition(begin - 1), 0
        async with aclosing(_portions(chunks)) as portions:
            async for portion in portions:
                size += sum(len(chunk.data) for chunk in portion)
                while place.line < portion[-1].last_line:
                    looked = await self._in_thread(search, portion, place, limit - len(found), ends_at)
                    found += looked.lines
                    place = looked.place
                    if len(found) >= limit:
                        return Searched(found, place, None)
                    if time.monotonic() >= ends_at:
                        return Searched(found, place, PausedBy.TIME)
                if size >= self._bytes_max:
                    return Searched(found, place, PausedBy.BYTES)
        return Searched(found, place, None)

    async def _in_thread(
        self, search: LogSearch, chunks: list[Chunk], after: LogPosition, room: int, ends_at: float
    ) -> Looked:
        def look() -> Looked:
            return search.look(chunks, after, room, min(ends_at, time.monotonic() + SLICE_SEC))

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)


async def _portions(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[list[Chunk], None]:
    """Join small chunks: a slice in a thread costs more than the search of one of them."""
    portion: list[Chunk] = []
    size = 0
    async for chunk in chunks:
        portion.append(chunk)
        size += len(chunk.data)
        if size >= SLICE_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
