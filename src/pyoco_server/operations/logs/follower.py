"""One reader of a growing log: old lines are read from the store, new ones are taken from the shared view.

A slow reader costs only what it has read ahead: lines that it does not take are not kept for it, but read
again when it needs them.
"""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from typing import NamedTuple

from pyoco_server.operations.live.notify import Notify, noop
from pyoco_server.operations.logs.cursors import LogPosition
from pyoco_server.operations.logs.views import LogView
from pyoco_server.store.logs.chunks import Chunk, LogUnit
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop

READ_AHEAD_BYTES = 1_048_576
READ_AGAIN = Backoff(first_sec=0.5, longest_sec=0.5)
# Lines in one portion: the replay of a long log must not delay other requests.
PORTION_LINES = 200


class NewLines(NamedTuple):
    """Lines `begin` to `end` of a chunk. `lost`: lines before them no longer exist."""

    chunk: Chunk
    begin: int
    end: int
    lost: bool

    @property
    def lines(self) -> list[bytes]:
        """As they are stored."""
        return self.chunk.data.splitlines()[self.begin - self.chunk.line : self.end - self.chunk.line + 1]


class LogFollower:
    def __init__(self, store: Store, run_id: str, view: LogView, after: LogPosition) -> None:
        self._store = store
        self._run_id = run_id
        self._view = view
        self._ahead: deque[Chunk] = deque()
        self._reader = Loop("reading a log", self._read, backoff=READ_AGAIN)
        self._is_reading = False
        self._notify: Notify = noop
        self._losses = view.losses
        self.place = after if after.line <= view.lines else LogPosition(0, 0)

    def attach(self, notify: Notify) -> None:
        self._notify = notify
        self._view.attach(notify)

    def detach(self) -> None:
        self._view.detach(self._notify)
        self._notify = noop
        self._reader.stop_at_once()

    @property
    def has_to_begin_again(self) -> bool:
        """The broker has lost lines, perhaps some that were taken."""
        return self._losses != self._view.losses

    def begin_again(self) -> None:
        self._losses = self._view.losses
        self._ahead.clear()
        self.place = LogPosition(0, 0)

    @property
    def is_over(self) -> bool:
        """The run is over, and all lines were taken."""
        return self._view.is_final and self.place.line >= self._view.lines

    def take(self) -> NewLines | None:
        """The next portion. None: nothing yet; the subscriber is notified when there is."""
        if self.has_to_begin_again:
            return None
        after = self.place.line
        while self._ahead and self._ahead[0].last_line <= after:
            self._ahead.popleft()
        chunk = self._ahead[0] if self._ahead else self._view.with_line(after + 1)
        if chunk is None:
            if after < self._view.lines and not self._is_reading:
                self._is_reading = True
                self._reader.start()
                self._reader.wake()
            return None
        begin = max(after + 1, chunk.line)
        end = min(begin + PORTION_LINES - 1, chunk.last_line)
        self.place = LogPosition(end, chunk.seq)
        return NewLines(chunk, begin, end, lost=begin > after + 1)

    async def _read(self) -> None:
        """Read the next portion after the lines that were taken."""
        self._ahead.clear()  # of an attempt that failed
        await self._read_ahead()
        self._is_reading = False
        self._notify()

    async def _read_ahead(self) -> None:
        reader, losses = self._store.log_reader, self._losses
        span = await reader.span(self._run_id, at_leader=True)
        if losses != self._losses:
            return  # the follower started again meanwhile: its position has changed
        if span is None or span.lines <= self.place.line:
            # The log was erased or has expired: there is nothing left to wait for.
            self.place = LogPosition(max(self.place.line, self._view.lines), self.place.seq)
            return
        chunks = reader.from_place(self._run_id, span, LogUnit.LINE, self.place.line + 1, hint=self.place.seq)
        size = 0
        async with aclosing(chunks):
            async for chunk in chunks:
                if losses != self._losses:
                    self._ahead.clear()
                    return
                if chunk.last_line > self.place.line:
                    self._ahead.append(chunk)
                    size += len(chunk.data)
                if size >= READ_AHEAD_BYTES:
                    return
