"""The log of one run as its worker writes it: lines are gathered and appended in chunks, one in flight.

Never in the way of the run: what cannot be stored in time is left out, and a line says how much. A worker
that was taken over writes nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from pyoco_server.errors import Unavailable
from pyoco_server.ids import new_token
from pyoco_server.store.errors import BrokerRefused
from pyoco_server.store.logs import Line, LogEnd, LogMoved
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# A line is stored, and so seen by whoever follows, at most this long after it was printed.
FLUSH_SEC = 0.1
CHUNK_BYTES_MAX = 192 * 1024
CHUNK_LINES_MAX = 2_000
LINE_WEIGHT = 120  # what a line costs besides its text
WAITING_BYTES_MAX = 8 * 2**20
TRY_AGAIN_SEC = (0.1, 1.0)
# The end of a run does not wait for its log longer than this.
LAST_FLUSH_SEC = 10.0


# Nobody answers, or the stream's leader is being chosen.
COMES_BACK = (503, 10008)


class RunLog:
    """Everything here happens in the loop's thread."""

    def __init__(self, store: Store, run_id: str, fence: int) -> None:
        self._store = store
        self._run_id = run_id
        self._fence = fence
        # The first claim begins an empty log; a later one has to look where its predecessors ended.
        self._end: LogEnd | None = LogEnd() if fence == 1 else None
        self._waiting: deque[Line] = deque()
        self._weight = 0
        self._left_out = 0
        self._count = 0
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None
        self._on_room: Callable[[], None] | None = None
        self.has_prints = False  # user code's own lines wait: the end of the run comes after them

    def notice(
        self, text: str, *, task: str | None = None, attempt: int | None = None, level: str = "INFO"
    ) -> None:
        """A line of our own about the run."""
        self.add(Line(time.time(), "system", text, task, attempt or None, level))

    def add(self, line: Line) -> None:
        if self._is_over:
            return
        if self._count >= self._store.config.log_max_lines_per_run or self._is_flooded():
            self._left_out += 1
            return
        self._count += 1
        self._waiting.append(line)
        self._weight += len(line.text) + LINE_WEIGHT
        if line.stream != "system":
            self.has_prints = True
        if self._weight >= CHUNK_BYTES_MAX:
            self.flush_soon()
        elif self._timer is None and self._writer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SEC, self.flush_soon)

    def is_full(self, on_room: Callable[[], None]) -> bool:
        """Whether whoever prints should wait; it is told when there is room again, or no hope of it."""
        if self._weight < WAITING_BYTES_MAX // 2 or not self._store.is_connected:
            return False
        self._on_room = on_room
        return True

    def flush_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writer is None and (self._waiting or self._left_out):
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def flushed(self) -> None:
        """Everything added so far is stored, or given up."""
        self.flush_soon()
        if self._writer is not None:
            done, _ = await asyncio.wait([self._writer], timeout=LAST_FLUSH_SEC)
            if not done:
                log.warning("the log is not stored in time", extra={"run_id": self._run_id})

    async def close(self) -> None:
        await self.flushed()
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writer is not None:
            self._writer.cancel()

    def _is_flooded(self) -> bool:
        return self._weight >= WAITING_BYTES_MAX

    async def _write(self) -> None:
        try:
            while self._waiting or self._left_out:
                await self._store_patiently(self._next_chunk())
            self.has_prints = False
        finally:
            self._writer = None
            self._make_room()

    def _next_chunk(self) -> list[Line]:
        chunk: list[Line] = []
        weight = 0
        while self._waiting and len(chunk) < CHUNK_LINES_MAX:
            more = len(self._waiting[0].text) + LINE_WEIGHT
            if chunk and weight + more > CHUNK_BYTES_MAX:
                break
            chunk.append(self._waiting.popleft())
            weight += more
        self._weight -= weight
        if self._left_out and not self._waiting:
            chunk.append(self._mark())
        self._make_room()
        return chunk

    def _mark(self) -> Line:
        """Lines are missing here: said in the log itself, where somebody looks for them."""
        count, self._left_out = self._left_out, 0
        most = self._store.config.log_max_lines_per_run
        why = f"a run keeps {most}" if self._count >= most else "they came faster than they could be stored"
        return Line(time.time(), "system", f"{count} lines are left out here: {why}", level="WARNING")

    def _make_room(self) -> None:
        if self._on_room is not None and (
            self._weight < WAITING_BYTES_MAX // 4 or not self._store.is_connected
        ):
            on_room, self._on_room = self._on_room, None
            on_room()

    async def _store_patiently(self, chunk: list[Line]) -> None:
        """Until the broker answers; what comes meanwhile is gathered, up to a bound."""
        chunk_id = new_token()
        pause = TRY_AGAIN_SEC[0]
        while not self._is_over:
            try:
                await self._append(chunk, chunk_id)
                return
            except BrokerRefused as refused:
                if refused.code in COMES_BACK:
                    await asyncio.sleep(pause)
                    continue
                extra = {"run_id": self._run_id, "lines": len(chunk), "error": refused.message}
                log.error("lines of a run cannot be stored", extra=extra)
                return
            except Unavailable:
                self._make_room()
                await asyncio.sleep(pause)
                pause = min(pause * 2, TRY_AGAIN_SEC[1])

    async def _append(self, chunk: list[Line], chunk_id: str) -> None:
        while not self._is_over:
            if self._end is None:
                self._moved_to(await self._store.logs.end(self._run_id))
                continue
            try:
                self._end = await self._store.logs.append(
                    self._run_id, self._end, chunk, fence=self._fence, chunk_id=chunk_id
                )
                return
            except LogMoved as moved:
                self._moved_to(moved.now)

    def _moved_to(self, end: LogEnd) -> None:
        self._end = end
        self._count = max(self._count, end.lines)
        if end.fence > self._fence:
            # A successor writes: what we still have to say belongs to nobody.
            self._is_over = True
            self._waiting.clear()
            self._left_out = 0
