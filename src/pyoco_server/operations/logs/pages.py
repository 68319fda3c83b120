"""A run's log in pages: after a token, from a line, the last lines, or only lines that match a search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

from pyoco_server.operations.logs.cursors import LogPosition, LogPositions
from pyoco_server.operations.logs.notices import may_be_noted
from pyoco_server.operations.logs.search import LogSearch, Sought
from pyoco_server.operations.logs.search_pool import LogSearches, PausedBy, Searched
from pyoco_server.operations.logs.unwritten import log_span
from pyoco_server.store.logs.chunks import Chunk, LogUnit
from pyoco_server.store.logs.reader import Span
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store

LINES_DEFAULT, LINES_MAX = 1_000, 5_000

Chunks = AsyncIterator[Chunk]


class PageAsked(NamedTuple):
    """At most one of `token`, `from_line` and `tail`; without them from the first line."""

    token: str | None = None
    from_line: int | None = None
    tail: int | None = None
    limit: int = LINES_DEFAULT
    sought: Sought | None = None


class SearchedTo(NamedTuple):
    """How far a search has come: up to `line` of `lines`. `paused_by`: why it stopped there."""

    line: int
    lines: int
    paused_by: PausedBy | None


class LogPage(NamedTuple):
    """`lines` as they are stored, each a JSON object. `complete`: the run is over and these are the last.

    `truncated`: lines that were asked for no longer exist, or lines were left out of the log.
    """

    lines: list[bytes]
    token: str
    complete: bool
    truncated: bool
    searched: SearchedTo | None = None


class LogPages:
    """One for each gateway."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.searches = LogSearches(store.config)

    def close(self) -> None:
        self.searches.close()

    async def read(self, stored: StoredRun, asked: PageAsked, *, caller: str) -> LogPage:
        """`stored` was read before this call: if the run had ended by then, its output is complete now.

        `caller`: its searches are counted together. Raises Limited if there are too many.
        """
        if asked.sought is None:
            return await self._read(stored, asked, None)
        search = LogSearch(asked.sought)
        with self.searches.concurrency.entered(caller):
            return await self._read(stored, asked, search)

    async def _read(self, stored: StoredRun, asked: PageAsked, search: LogSearch | None) -> LogPage:
        run = stored.run
        places = LogPositions(await self._store.secrets.for_tokens(), run.run_id)
        after = places.opened(asked.token) if asked.token is not None else LogPosition()
        span = await log_span(self._store, run, at_leader=run.is_terminal)
        if span is not None and after.line > span.lines:
            # A replica lags, or the whole log has expired and started again.
            span = await log_span(self._store, run, at_leader=True)
        if span is None:
            searched = SearchedTo(0, 0, None) if search is not None else None
            is_all = run.is_terminal and not may_be_noted(run, None)
            return LogPage([], places.token(after), is_all, after.line > 0, searched)
        begin = _begin(asked, after, span)
        lost = begin < span.first.line or after.line > span.lines
        if lost:
            begin, after = span.first.line, LogPosition(span.first.line - 1)
        found = await self._collect(run.run_id, span, begin, after, asked.limit, search)
        last = found.place
        return LogPage(
            found.lines,
            places.token(last),
            complete=run.is_terminal and last.line >= span.lines and not may_be_noted(run, span),
            truncated=lost or span.last.omitted > 0,
            searched=_searched_to(found, span.lines) if search is not None else None,
        )

    async def _collect(
        self, run_id: str, span: Span, begin: int, after: LogPosition, limit: int, search: LogSearch | None
    ) -> Searched:
        if begin > span.lines:
            return Searched([], after, None)
        hint = after.seq if begin == after.line + 1 else 0
        chunks = self._store.log_reader.from_place(run_id, span, LogUnit.LINE, begin, hint=hint)
        async with aclosing(chunks):
            if search is None:
                return Searched(*await _plain(chunks, begin, limit), None)
            return await self.searches.through(chunks, begin, limit, search)


def _searched_to(found: Searched, lines: int) -> SearchedTo:
    line = min(found.place.line, lines)
    return SearchedTo(line, lines, found.paused_by if line < lines else None)


def _begin(asked: PageAsked, after: LogPosition, span: Span) -> int:
    if asked.from_line is not None:
        return asked.from_line
    if asked.tail is not None:
        return max(1, span.lines - asked.tail + 1)
    return after.line + 1


async def _plain(chunks: Chunks, begin: int, limit: int) -> tuple[list[bytes], LogPosition]:
    lines: list[bytes] = []
    place = LogPosition(begin - 1)
    async for chunk in chunks:
        found = _lines_from(chunk, begin)[: limit - len(lines)]
        if found:
            lines += found
            place = LogPosition(max(begin, chunk.line) + len(found) - 1, chunk.seq)
        if len(lines) >= limit:
            break
    return lines, place


def _lines_from(chunk: Chunk, begin: int) -> list[bytes]:
    return chunk.data.splitlines()[max(0, begin - chunk.line) :]
