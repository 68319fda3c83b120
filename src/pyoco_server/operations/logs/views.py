"""The end of a run's log, for everybody who follows it: heard once, kept once, shown once.

Chunks are pushed by the broker as they are stored. What might have been missed (a reconnect, a broker that
died before it told us) is found out by a look at the log's end: a push that never came costs a delay and no
line. When the run is over, that look says how long the log is for good. After a reconnect it is compared with
what was known: a broker that has lost lines which were shown makes readers begin again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from pyoco_server.errors import Unavailable
from pyoco_server.operations.live.notify import Notify
from pyoco_server.operations.live.run_views import RunView, RunViews
from pyoco_server.operations.logs.notices import awaits_notice
from pyoco_server.store.logs.chunks import Chunk
from pyoco_server.store.logs.writer import LogEnd, end_of
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop, start_task

# What is kept of the newest lines, so that followers need not read them.
TAIL_BYTES_MAX = 1_048_576
# How often a log that is followed is looked at in case something was not pushed.
LOOK_SEC = 5.0
LOOK_AGAIN_SEC = 0.5
LOOK_AGAIN = Backoff(first_sec=LOOK_AGAIN_SEC, longest_sec=LOOK_AGAIN_SEC)

T = TypeVar("T")


class LogView:
    def __init__(self, store: Store, run_id: str, run_view: RunView) -> None:
        self._store = store
        self._run_id = run_id
        self._sid: int | None = None
        self._tail: deque[Chunk] = deque()
        self._tail_bytes = 0
        self._shown: dict[tuple[Hashable, int], object] = {}
        self._subscribers: set[Notify] = set()
        self._looking = Loop(
            "end of a followed log", self._look_until_final, interval_sec=LOOK_SEC, backoff=LOOK_AGAIN
        )
        self._is_reconnected = False
        self._soon: asyncio.TimerHandle | None = None
        # Of the last chunk that is known.
        self._end = LogEnd()
        self.run_view = run_view
        self.lines = 0
        # How often the broker turned out to have lost what was shown.
        self.losses = 0
        self.is_final = False
        self.entered = 0

    async def open(self) -> None:
        """Hear of what comes, then look how far it is: nothing falls between."""
        self._sid = await self._store.log_reader.listen(self._run_id, self._on_chunk)
        self._store.on_reconnect(self._reconnected)
        self.run_view.attach(self._on_run)
        await self._look()
        self._looking.start()

    async def close(self) -> None:
        self.run_view.detach(self._on_run)
        with contextlib.suppress(ValueError):  # it may have failed to open
            self._store.forget_reconnect(self._reconnected)
        if self._soon is not None:
            self._soon.cancel()
        await self._looking.stop(within_sec=0.0)
        if self._sid is not None:
            with contextlib.suppress(Unavailable):
                await self._store.log_reader.unlisten(self._sid)

    def attach(self, ring: Notify) -> None:
        """Call this when there are more lines, or when it is certain that there will be none."""
        self._subscribers.add(ring)

    def detach(self, ring: Notify) -> None:
        self._subscribers.discard(ring)

    def with_line(self, line: int) -> Chunk | None:
        """The chunk with this line, if it is among the newest."""
        if not self._tail or not self._tail[0].line <= line <= self._tail[-1].last_line:
            return None
        return next((chunk for chunk in reversed(self._tail) if chunk.line <= line), None)

    def shown(self, form: Hashable, chunk: Chunk, make: Callable[[Chunk], T]) -> T:
        """What this form of a chunk looks like; made for the first who asks, while it is among the newest."""
        known = self._shown.get((form, chunk.seq))
        if known is not None:
            return cast("T", known)
        made = make(chunk)
        if self._tail and chunk.seq >= self._tail[0].seq:
            self._shown[form, chunk.seq] = made
        return made

    def _on_chunk(self, chunk: Chunk) -> None:
        if chunk.last_line <= self.lines:
            return
        if chunk.line > self.lines + 1:
            self._forget_tail()  # something was missed: whoever needs it reads it
        self._end = end_of(chunk)
        self._tail.append(chunk)
        self._tail_bytes += len(chunk.data)
        while self._tail_bytes > TAIL_BYTES_MAX and len(self._tail) > 1:
            self._drop(self._tail.popleft())
        self._grow(chunk.last_line)
        self._on_run()

    def _on_run(self) -> None:
        if self._is_over and not self.is_final:
            self._looking.wake()

    @property
    def _is_over(self) -> bool:
        return self.run_view.is_lost or self.run_view.stored.run.is_terminal

    def _reconnected(self) -> None:
        self._is_reconnected = True
        self._looking.wake()

    def _grow(self, lines: int) -> None:
        self.lines = lines
        for ring in tuple(self._subscribers):
            ring()

    def _drop(self, chunk: Chunk) -> None:
        self._tail_bytes -= len(chunk.data)
        for key in [key for key in self._shown if key[1] <= chunk.seq]:
            del self._shown[key]

    def _forget_tail(self) -> None:
        self._tail.clear()
        self._shown.clear()
        self._tail_bytes = 0

    async def _look_until_final(self) -> None:
        if not self.is_final or self._is_reconnected:
            await self._look()
        if self._is_over and not self.is_final:
            # There may be a last line to come, for a moment.
            self._soon = asyncio.get_running_loop().call_later(LOOK_AGAIN_SEC, self._looking.wake)

    async def _look(self) -> None:
        """At the leader. What a run that is over has printed was stored before its end was."""
        run, was_reconnected = self.run_view.stored.run, self._is_reconnected
        awaits_line = not self.run_view.is_lost and await awaits_notice(self._store, run)
        was_over = self.run_view.is_lost or (run.is_terminal and not awaits_line)
        if was_reconnected and not await self._store.logs.has(self._run_id, self._end):
            self._forget_tail()
            self.lines, self._end = 0, LogEnd()
            self.losses += 1
        end = await self._store.logs.end(self._run_id)
        if end.lines > self.lines:
            self._forget_tail()
            self._grow(end.lines)
            self._end = end
        if was_reconnected:
            self._is_reconnected = False
        if was_over:
            self.is_final = True
            self._grow(self.lines)


class LogViews:
    """The logs that have subscribers."""

    def __init__(self, store: Store, run_views: RunViews) -> None:
        self._store = store
        self._run_views = run_views
        self._views: dict[str, LogView] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def subscribe(self, run_id: str, *, tenant_id: str | None = None) -> LogView:
        """End it with `unsubscribe`. NotFound for a run that is not there, or not the tenant's."""
        run_view = await self._run_views.subscribe(run_id, tenant_id=tenant_id)
        view = self._views.get(run_id)
        if view is None:
            view = self._views[run_id] = LogView(self._store, run_id, run_view)
            self._opening[run_id] = asyncio.get_running_loop().create_task(view.open())
        view.entered += 1
        try:
            opening = self._opening.get(run_id)
            if opening is not None:
                # Shielded: the first of several may hang up while the others still wait.
                await asyncio.shield(opening)
                self._opening.pop(run_id, None)
        except BaseException:  # also when cancelled: nothing else counts this subscriber out
            self.unsubscribe(run_id, view)
            raise
        return view

    def unsubscribe(self, run_id: str, view: LogView) -> None:
        self._run_views.unsubscribe(run_id, view.run_view)
        view.entered -= 1
        if view.entered == 0 and self._views.get(run_id) is view:
            del self._views[run_id]
            opening = self._opening.pop(run_id, None)
            if opening is not None:
                opening.cancel()
            closing = start_task(view.close(), "closing a log")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def __len__(self) -> int:
        return len(self._views)
