"""The end of a run's log, shared by all its followers: received once, stored once, rendered once.

The broker pushes chunks as they are stored. A push can be lost (by a reconnect, or by a broker that died), so
the end of the log is also read at intervals: a lost push costs a delay and no line. When the run is over,
that read gives the final length of the log. After a reconnect it is compared with what was known: if the
broker has lost lines that were shown, readers start again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from pyoco_server.operations.live.run_views import RunView, RunViews
from pyoco_server.operations.live.shared_views import SharedView, SharedViews
from pyoco_server.operations.logs.notices import awaits_notice
from pyoco_server.operations.logs.unwritten import unwritten_chunk
from pyoco_server.store.logs.chunks import Chunk
from pyoco_server.store.logs.writer import LogEnd, end_of
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, Loop, start_task

# The newest lines are kept, so that followers need not read them.
TAIL_BYTES_MAX = 1_048_576
# The interval at which the end of a followed log is read, in case a push was lost.
LOOK_SEC = 5.0
LOOK_AGAIN_SEC = 0.5
LOOK_AGAIN = Backoff(first_sec=LOOK_AGAIN_SEC, longest_sec=LOOK_AGAIN_SEC)

T = TypeVar("T")


class LogView(SharedView):
    def __init__(self, store: Store, run_id: str, run_view: RunView) -> None:
        super().__init__()
        self._store = store
        self._run_id = run_id
        self._sid: int | None = None
        self._tail: deque[Chunk] = deque()
        self._tail_bytes = 0
        self._shown: dict[tuple[Hashable, int], object] = {}
        self._looking = Loop(
            "end of a followed log", self._look_until_final, interval_sec=LOOK_SEC, backoff=LOOK_AGAIN
        )
        self._is_reconnected = False
        self._soon: asyncio.TimerHandle | None = None
        # Where the last known chunk ends.
        self._end = LogEnd()
        self.run_view = run_view
        self.lines = 0
        # How often the broker has lost lines that were shown.
        self.losses = 0
        self.is_final = False

    async def open(self) -> None:
        """Subscribe to chunks, then read the end of the log, so that none is missed."""
        self._sid = await self._store.log_reader.listen(self._run_id, self._on_chunk)
        self._store.on_reconnect(self._reconnected)
        self.run_view.attach(self._on_run)
        await self._look()
        self._looking.start()

    def close(self) -> None:
        self.run_view.detach(self._on_run)
        with contextlib.suppress(ValueError):  # it may have failed to open
            self._store.forget_reconnect(self._reconnected)
        if self._soon is not None:
            self._soon.cancel()
        self._looking.stop_at_once()
        if self._sid is not None:
            start_task(self._store.log_reader.unlisten(self._sid), "closing a log")

    def with_line(self, line: int) -> Chunk | None:
        """The chunk with this line, if it is among the newest."""
        if not self._tail or not self._tail[0].line <= line <= self._tail[-1].last_line:
            return None
        return next((chunk for chunk in reversed(self._tail) if chunk.line <= line), None)

    def shown(self, form: Hashable, chunk: Chunk, make: Callable[[Chunk], T]) -> T:
        """The chunk in this form; rendered for the first follower that asks, while it is among the newest."""
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
            self._forget_tail()  # a chunk was missed; followers that need it read it
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
        self._notify()

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
            # A last line may still come, for a moment.
            self._soon = asyncio.get_running_loop().call_later(LOOK_AGAIN_SEC, self._looking.wake)

    async def _look(self) -> None:
        """At the leader. What a run has printed is stored before the end of the run."""
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
        elif was_over and not self.lines and not self.run_view.is_lost:
            self._show_unwritten(await unwritten_chunk(self._store, run))
        if was_reconnected:
            self._is_reconnected = False
        if was_over:
            self.is_final = True
            self._grow(self.lines)

    def _show_unwritten(self, chunk: Chunk | None) -> None:
        """All lines of a log of which none is stored. They stay in the tail: followers cannot read them."""
        if chunk is not None and not self.lines:
            self._tail.append(chunk)
            self._tail_bytes += len(chunk.data)
            self._grow(chunk.last_line)


class LogViews(SharedViews[LogView]):
    """The logs that have subscribers. Each of them subscribes to the run too."""

    def __init__(self, store: Store, run_views: RunViews) -> None:
        super().__init__()
        self._store = store
        self._run_views = run_views

    async def subscribe(self, run_id: str, *, tenant_id: str | None = None) -> LogView:
        """End it with `unsubscribe`. NotFound if there is no such run for this tenant."""
        run_view = await self._run_views.subscribe(run_id, tenant_id=tenant_id)
        with contextlib.ExitStack() as on_error:
            on_error.callback(self._run_views.unsubscribe, run_id, run_view)
            view = await self._acquire(run_id, lambda: LogView(self._store, run_id, run_view))
            on_error.pop_all()
        return view

    def unsubscribe(self, run_id: str, view: LogView) -> None:
        self._release(run_id, view)
        self._run_views.unsubscribe(run_id, view.run_view)
