"""The output log of one run: lines are buffered and appended in chunks, one in flight.

The log never delays the run: lines that cannot be stored in time are left out, and a line says how many. The
end of a run waits for its log only while the broker answers; the rest is stored after the end. After a
takeover nothing more is written. A run that prints nothing and ends soon has no chunk (`held_notices`).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from pyoco_server import clock
from pyoco_server.errors import Unavailable
from pyoco_server.ids import new_token
from pyoco_server.jetstream.errors import BrokerRefused
from pyoco_server.lifecycle.commands import CompleteRun, FailRun, StartTask
from pyoco_server.operations.logs.notice_lines import notice
from pyoco_server.store.logs.writer import LogEnd, LogLine, LogMoved
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff, contain, start_task
from pyoco_server.worker.recording.held_notices import HeldNotices, Noted, notice_lines

log = logging.getLogger(__name__)

# A line is stored, and visible to followers, at most this long after it was printed. The first line after a
# pause is stored sooner, after a short time in which others can join.
FLUSH_SEC = 0.1
GATHER_SEC = 0.01
# After a chunk of so few lines the next one may follow sooner: a run that prints now and then is followed
# live, and one that prints all the time still fills its chunks.
FEW_LINES = 2
FLUSH_FEW_SEC = 0.05
# Notices of a run that prints nothing are stored after this long. If it ends sooner, they need not be.
HOLD_SEC = 0.5
# While lines are left out, a line in the log says so this often.
MARK_SEC = 10.0
CHUNK_BYTES_MAX = 192 * 1024
CHUNK_LINES_MAX = 2_000
LINE_WEIGHT = 120  # what a line costs besides its text
WAITING_BYTES_MAX = 8 * 2**20
TRY_AGAIN = Backoff(first_sec=0.1, longest_sec=1.0)
# The end of a run does not wait for its log longer than this; and no longer than this while appends are not
# answered.
LAST_FLUSH_SEC = 10.0
SILENT_FLUSH_SEC = 0.5
# After the end, storing the rest is retried for this long, for so many runs at once.
LATE_SEC = 60.0
LATE_RUNS_MAX = 100
# The size of the bucket: so many seconds of printing at the full rate.
BURST_SEC = 10.0
# When the bucket is empty, no line is stored until it has refilled by this much: gaps are few.
PAUSE_SEC = 1.0
LOOP = "log of a run"

_late: set[asyncio.Task[None]] = set()


class RunLog:
    """Everything here happens in the loop's thread."""

    def __init__(self, store: Store, run_id: str, fence: int) -> None:
        self._store = store
        self._context = contextvars.copy_context()  # of the attempt: a timer may have another one
        self._run_id = run_id
        self._fence = fence
        # The first claim begins an empty log; a later one has to read where the log ends.
        self._end: LogEnd | None = LogEnd() if fence == 1 else None
        # None as soon as lines are written.
        self._held = HeldNotices(store.config.log_max_lines_per_run) if fence == 1 else None
        self._waiting: deque[LogLine] = deque()
        self._weight = 0
        self._left_out = 0
        self._why_left_out = ""
        self._marked = 0
        self._marked_at = -MARK_SEC
        self._rate = Rate(store.config.log_max_lines_per_sec)
        self._count = 0
        self._is_closed = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None
        self._next_flush_at = 0.0
        self._is_flushing = False
        self._on_room: Callable[[], None] | None = None

    def note(self, noted: Noted, size: int = 0) -> None:
        """Notices about the claim, a task or the end. `size`: of the values in it, in bytes."""
        # Now, except for the start of a task, which has an instant that its notice shows.
        at = noted.started_at if type(noted) is StartTask else None
        if at is None:
            at = clock.now()
        if self._held is None or not self._held.hold(noted, at, size):
            self._add_all(notice_lines(noted, at))
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_SEC, self.flush_soon)

    def warn(self, text: str) -> None:
        """A notice about something that is not an event."""
        self._add_all(notice(text, clock.now(), level="WARNING"))

    def add(self, line: LogLine) -> None:
        if self._is_over or self._is_closed:
            return
        if self._held is not None and self._held.is_ending:
            self._held.later.append(line)
            return
        self._release()
        if why := self._why_not(line):
            self._leave_out(why)
            return
        if self._left_out:
            self._mark_here()
        self._count += 1
        self._waiting.append(line)
        self._weight += len(line.text) + LINE_WEIGHT
        if self._weight >= CHUNK_BYTES_MAX:
            self.flush_soon()
        elif self._timer is None or line.stream != "system":
            self._flush_later(is_urgent=line.stream != "system")

    def hold_end(self) -> bool:
        """Whether nothing of the log is written or has to be. Then nothing is, until the end is known."""
        if self._held is None or self._is_over:
            return False
        self._forget_timer()
        self._held.is_ending = True
        return True

    def end_unwritten(self, ending: CompleteRun | FailRun, ended_at: float) -> None:
        """The end is committed, and says that no line is stored. Lines that came meanwhile are stored after
        the same lines that readers make from the events."""
        held, self._held = self._held, None
        if held is not None and held.later:
            self._add_all(held.unwritten(ending, ended_at) + held.later)

    def end_refused(self) -> None:
        """The end is not committed: the notices are written after all."""
        if self._held is not None:
            self._held.is_ending = False
            self._release()

    def is_full(self, on_room: Callable[[], None]) -> bool:
        """True: the caller should wait. `on_room` is called when waiting is over."""
        if self._weight < WAITING_BYTES_MAX // 2 or not self._store.is_connected:
            return False
        self._on_room = on_room
        return True

    def flush_soon(self) -> None:
        self._forget_timer()
        self._release()
        if self._writer is None and (self._waiting or self._left_out):
            self._writer = start_task(self._write(), LOOP, context=self._context)

    async def flush(self) -> None:
        """Wait until everything added so far is stored, up to a limit."""
        self._is_flushing = True
        self.flush_soon()
        if self._writer is not None and not await self._wait_for_writer(self._writer):
            log.warning("the log is not stored in time", extra={"run_id": self._run_id})
        self._is_flushing = False

    async def close(self) -> None:
        """No line is added after this. The rest is stored later, if the broker answers soon."""
        await self.flush()
        self._is_closed = True
        self._forget_timer()
        if self._writer is None:
            self._is_over = True
        elif len(_late) < LATE_RUNS_MAX:
            self._is_flushing = True
            late = start_task(self._finish_late(self._writer), LOOP)
            _late.add(late)
            late.add_done_callback(_late.discard)
        else:
            self._give_up(self._writer)

    async def _wait_for_writer(self, writer: asyncio.Task[None]) -> bool:
        done, _ = await asyncio.wait([writer], timeout=SILENT_FLUSH_SEC)
        if done or self._store.logs.silent.is_set():
            return bool(done)
        silence = asyncio.ensure_future(self._store.logs.silent.wait())
        patience_sec = LAST_FLUSH_SEC - SILENT_FLUSH_SEC
        await asyncio.wait([writer, silence], timeout=patience_sec, return_when=asyncio.FIRST_COMPLETED)
        silence.cancel()
        return writer.done()

    async def _finish_late(self, writer: asyncio.Task[None]) -> None:
        done, _ = await asyncio.wait([writer], timeout=LATE_SEC)
        if done:
            self._is_over = True
        else:
            self._give_up(writer)

    def _give_up(self, writer: asyncio.Task[None]) -> None:
        self._is_over = True
        writer.cancel()
        log.error("the end of a run's log is lost", extra={"run_id": self._run_id})

    def _release(self) -> None:
        """Held notices are written before anything else is."""
        if self._held is not None and not self._held.is_ending:
            held, self._held = self._held, None
            self._add_all(held.written() + held.later)

    def _add_all(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            self.add(line)

    def _why_not(self, line: LogLine) -> str:
        """Why a line is left out; empty if it is stored. Notices about the whole run are always stored."""
        if line.stream == "system" and line.task is None:
            return ""
        if self._store.room.is_low:
            return "the broker is running out of storage"
        most = self._store.config.log_max_lines_per_run
        if self._count >= most:
            return f"a run keeps {most}"
        if self._weight >= WAITING_BYTES_MAX:
            return "they came faster than they could be stored"
        if line.stream != "system" and not self._rate.take():
            return f"a run may print {self._store.config.log_max_lines_per_sec} a second"
        return ""

    def _leave_out(self, why: str) -> None:
        self._left_out += 1
        self._why_left_out = why
        if self._timer is None:
            self._flush_later(is_urgent=False)

    def _flush_later(self, *, is_urgent: bool) -> None:
        """Not while a chunk is being written: the writer checks for more lines afterwards."""
        if self._writer is not None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = self._mark_is_due() if not self._waiting else now + FLUSH_SEC
        if is_urgent:
            due = max(now + GATHER_SEC, self._next_flush_at)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self.flush_soon)

    def _mark_is_due(self) -> float:
        return max(self._marked_at + MARK_SEC, asyncio.get_running_loop().time() + FLUSH_SEC)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _write(self) -> None:
        try:
            while True:
                chunk, left_out = self._next_chunk()
                pause_sec = FLUSH_FEW_SEC if len(chunk) <= FEW_LINES else FLUSH_SEC
                self._next_flush_at = asyncio.get_running_loop().time() + pause_sec
                await self._store_chunk(chunk, left_out)
                is_pressing = self._is_flushing or self._weight >= CHUNK_BYTES_MAX
                if not (is_pressing and (self._waiting or self._left_out)):
                    break
        finally:
            self._writer = None
            self._make_room()
        if self._waiting or self._left_out:
            self._flush_later(is_urgent=bool(self._waiting))

    def _next_chunk(self) -> tuple[list[LogLine], int]:
        """The next lines, and how many are left out between them."""
        if self._left_out and len(self._waiting) < CHUNK_LINES_MAX:
            self._mark_here()
        chunk: list[LogLine] = []
        weight = 0
        while self._waiting and len(chunk) < CHUNK_LINES_MAX:
            more = len(self._waiting[0].text) + LINE_WEIGHT
            if chunk and weight + more > CHUNK_BYTES_MAX:
                break
            chunk.append(self._waiting.popleft())
            weight += more
        self._weight -= weight
        self._make_room()
        marked, self._marked = self._marked, 0
        return chunk, marked

    def _mark_here(self) -> None:
        """A line in the log shows how many lines are missing at this position."""
        self._marked_at = asyncio.get_running_loop().time()
        self._marked += self._left_out
        text = f"{self._left_out} lines are left out here: {self._why_left_out}"
        self._waiting.append(LogLine(clock.now(), "system", text, level="WARNING"))
        self._weight += len(text) + LINE_WEIGHT
        self._left_out = 0

    def _make_room(self) -> None:
        if self._on_room is not None and (
            self._weight < WAITING_BYTES_MAX // 4 or not self._store.is_connected
        ):
            on_room, self._on_room = self._on_room, None
            on_room()

    async def _store_chunk(self, chunk: list[LogLine], left_out: int) -> None:
        # After a defect these lines are lost; the lines after them are still stored.
        with contain(LOOP, "lines of a run are lost", run_id=self._run_id, lines=len(chunk)):
            await self._store_with_retries(chunk, left_out)

    async def _store_with_retries(self, chunk: list[LogLine], left_out: int) -> None:
        """Retry until the broker answers. New lines are buffered meanwhile, up to a limit."""
        chunk_id = new_token()
        tries = 0
        while not self._is_over:
            try:
                await self._append(chunk, left_out, chunk_id)
                return
            except BrokerRefused as refused:
                if refused.will_pass:
                    self._store.logs.silent.set()
                    tries += 1
                    await asyncio.sleep(TRY_AGAIN.after(tries))
                    continue
                extra = {"run_id": self._run_id, "lines": len(chunk), "error": refused.message}
                log.error("lines of a run cannot be stored", extra=extra)
                return
            except Unavailable:
                self._store.logs.silent.set()
                self._make_room()
                tries += 1
                await asyncio.sleep(TRY_AGAIN.after(tries))

    async def _append(self, chunk: list[LogLine], left_out: int, chunk_id: str) -> None:
        while not self._is_over:
            if self._end is None:
                self._note_end(await self._store.logs.end(self._run_id))
                continue
            try:
                self._end = await self._store.logs.append(
                    self._run_id, self._end, chunk, fence=self._fence, chunk_id=chunk_id, omitted=left_out
                )
                return
            except LogMoved as moved:
                self._note_end(moved.now)

    def _note_end(self, end: LogEnd) -> None:
        if self._end is not None and end.lines < self._end.lines:
            # All lines were removed by age or size, also the last ones: the next line has the next number.
            end = self._end._replace(seq=end.seq)
        self._end = end
        self._count = max(self._count, end.lines)
        if end.fence > self._fence:
            # Another worker writes this log now: the remaining lines are dropped.
            self._is_over = True
            self._waiting.clear()
            self._left_out = 0


class Rate:
    """The rate limit for one run's lines: a token bucket, so that a burst is free."""

    def __init__(self, per_sec: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_sec = per_sec
        self._most = per_sec * BURST_SEC
        self._left = self._most
        self._needs = 1.0
        self._monotonic = monotonic
        self._counted_at = monotonic()

    def take(self) -> bool:
        """Whether one more line is allowed now."""
        if self._left < self._needs:
            now = self._monotonic()
            earned = (now - self._counted_at) * self._per_sec
            self._left, self._counted_at = min(self._most, self._left + earned), now
            if self._left < self._needs:
                self._needs = max(1.0, self._per_sec * PAUSE_SEC)
                return False
            self._needs = 1.0
        self._left -= 1
        return True
