"""A run's log page by page: after a token, from a line, the last ones, or only those that are looked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from pyoco_server.operations.log_places import Place, Places
from pyoco_server.operations.log_search import Search, Sought
from pyoco_server.store.log_chunks import By, Chunk
from pyoco_server.store.log_reading import Span
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store

LINES_DEFAULT, LINES_MAX = 1_000, 5_000
# One request looks through so many lines; its token leads on from there.
SEARCHED_LINES_MAX = 1_000_000
SEARCHES_AT_ONCE = 4

Chunks = AsyncIterator[Chunk]


class _Numbered(msgspec.Struct):
    seq: int


_decode = msgspec.json.Decoder(_Numbered).decode


class PageAsked(NamedTuple):
    """One of `token`, `from_line` and `tail`, or the beginning."""

    token: str | None = None
    from_line: int | None = None
    tail: int | None = None
    limit: int = LINES_DEFAULT
    sought: Sought | None = None


class LogPage(NamedTuple):
    """`lines` as they are stored: an object of JSON each. `complete`: the run is over and this was all.

    `truncated`: what was asked for is not there any more, or lines were left out of the log.
    """

    lines: list[bytes]
    token: str
    complete: bool
    truncated: bool


class LogPages:
    """Lives as long as its gateway."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._searching = asyncio.Semaphore(SEARCHES_AT_ONCE)

    async def read(self, stored: StoredRun, asked: PageAsked) -> LogPage:
        """`stored` was read before: what a run that was over then has printed is there now."""
        run = stored.run
        places = Places(await self._store.secrets.for_tokens(), run.run_id)
        after = places.opened(asked.token) if asked.token is not None else Place()
        search = Search(asked.sought) if asked.sought is not None else None
        span = await self._store.log_reader.span(run.run_id, at_leader=run.is_terminal)
        if span is not None and after.line > span.lines:
            # Said by a replica that lags, or the whole log went by age and began anew.
            span = await self._store.log_reader.span(run.run_id, at_leader=True)
        if span is None:
            return LogPage([], places.token(after), run.is_terminal, after.line > 0)
        begin = _begin(asked, after, span)
        lost = begin < span.first.line or after.line > span.lines
        if lost:
            begin, after = span.first.line, Place(span.first.line - 1)
        lines, last = await self._collected(run.run_id, span, begin, after, asked.limit, search)
        return LogPage(
            lines,
            places.token(last),
            complete=run.is_terminal and last.line >= span.lines,
            truncated=lost or span.last.omitted > 0,
        )

    async def _collected(
        self, run_id: str, span: Span, begin: int, after: Place, limit: int, search: Search | None
    ) -> tuple[list[bytes], Place]:
        if begin > span.lines:
            return [], after
        hint = after.seq if begin == after.line + 1 else 0
        chunks = self._store.log_reader.from_place(run_id, span, By.LINE, begin, hint=hint)
        if search is None:
            async with aclosing(chunks):
                return await _plain(chunks, begin, limit)
        async with self._searching, aclosing(chunks):
            return await _searched(chunks, begin, limit, search)


def _begin(asked: PageAsked, after: Place, span: Span) -> int:
    if asked.from_line is not None:
        return asked.from_line
    if asked.tail is not None:
        return max(1, span.lines - asked.tail + 1)
    return after.line + 1


async def _plain(chunks: Chunks, begin: int, limit: int) -> tuple[list[bytes], Place]:
    lines: list[bytes] = []
    place = Place(begin - 1)
    async for chunk in chunks:
        found = _lines_from(chunk, begin)[: limit - len(lines)]
        if found:
            lines += found
            place = Place(max(begin, chunk.line) + len(found) - 1, chunk.seq)
        if len(lines) >= limit:
            break
    return lines, place


async def _searched(chunks: Chunks, begin: int, limit: int, search: Search) -> tuple[list[bytes], Place]:
    """Where it goes on: after the last line that was found if there may be more, else after all of them."""
    lines: list[bytes] = []
    place = Place(begin - 1)
    async for chunk in chunks:
        skipped = max(0, begin - chunk.line)
        data = b"\n".join(chunk.data.splitlines()[skipped:]) if skipped else chunk.data
        found = search.matching(data)
        lines += found[: limit - len(lines)]
        if len(lines) >= limit:
            return lines, Place(_number_of(lines[-1]), chunk.seq)
        place = Place(max(begin - 1, chunk.last_line), chunk.seq)
        if place.line - begin + 1 >= SEARCHED_LINES_MAX:
            break
    return lines, place


def _lines_from(chunk: Chunk, begin: int) -> list[bytes]:
    return chunk.data.splitlines()[max(0, begin - chunk.line) :]


def _number_of(line: bytes) -> int:
    return _decode(line).seq
