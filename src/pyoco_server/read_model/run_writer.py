"""Fold commits into runs and write their rows to `run_table` in batches, with the position reached.

Keeps what is not written yet, a cache of runs that are not over, and the two tallies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.jetstream.stream_position import StreamPosition
from pyoco_server.lifecycle.events import Event, RunErased
from pyoco_server.lifecycle.reduce import fold_listed
from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.answers import AnswerRow, answers_in
from pyoco_server.read_model.erased_runs import ErasedRun
from pyoco_server.read_model.run_rows import ChangedRun, decode, decode_all, row_of, slim, submitted_row
from pyoco_server.read_model.run_table import Filter, RunTable
from pyoco_server.read_model.run_tally import MINUTE_SEC, MINUTES_KEPT, DayTally, RunTally, since
from pyoco_server.read_model.waits import Key, WaitRow, wait_changes
from pyoco_server.store.runs.codec import decode_commit

log = logging.getLogger(__name__)

# Queries flush first, so this only bounds how much a restart has to read again.
FLUSH_INTERVAL_SEC = 1.0
DIRTY_MAX = 500
CACHED_RUNS_MAX = 20_000
MARK_OF_ERASED_LIVES_SEC = 48 * 3600.0
# How many recent runs a starting gateway reads to fill the tally of the last minutes.
RECENT_RUNS_MAX = 20_000

_FIRST_COMMIT = b"Pyoco-Commit-No: 1\r\n"


class FoldedCommit(NamedTuple):
    """`run` is None for the mark of an erased run of which nothing else was read."""

    before: Run | None
    run: Run | None
    events: list[Event]


class RunWriter:
    def __init__(self, table: RunTable, position: Callable[[], StreamPosition]) -> None:
        """`position`: how far the log has been read; it is written together with the rows."""
        self._table = table
        self._position = position
        self.tally = RunTally()
        self.days = DayTally()
        self._live: dict[str, Run] = {}
        self._dirty: dict[str, ChangedRun] = {}
        self._gone: dict[str, ErasedRun] = {}  # erased, and not written yet
        self._waits: dict[Key, WaitRow | None] = {}  # changed, and not written yet
        self._answers: list[AnswerRow] = []  # given, and not written yet
        self._clock = 0.0
        self._flush_timer: asyncio.TimerHandle | None = None

    def resume(self) -> StreamPosition:
        """The position from which the file can be continued. A file that is too old is emptied."""
        meta = self._table.meta()
        position = StreamPosition.load(meta)
        if clock.now() - float(meta.get("fed_at", 0)) < MARK_OF_ERASED_LIVES_SEC and position.position:
            self._load_tallies(meta.get("tally"), meta.get("days"))
            self._clock = self._table.clock()
            return position
        if position.position:
            log.info("the read model is too old and is filled again", extra={"position": position.position})
        self._table.wipe()
        return StreamPosition()

    def find(self, run_id: str) -> Run | None:
        """The run without its tasks, as of the last commit that was read."""
        run = self._live.get(run_id)
        if run is None and (state := self._table.state(run_id)):
            run = decode(state)
        return run

    def find_in_memory(self, run_id: str) -> Run | None:
        """As `find`, but None if the run would have to be read from the table."""
        return self._live.get(run_id)

    def fold(self, run_id: str, seq: int, headers: bytes, data: bytes) -> FoldedCommit:
        """Fold a commit into its run. The row is written by the next flush."""
        before = None if _FIRST_COMMIT in headers else self.find(run_id)
        events = decode_commit(data)
        run = fold_listed(before, events)
        if run is not None:
            self._change(before, run, seq)
            self._answers += answers_in(before, run, events, seq)
        elif any(isinstance(event, RunErased) for event in events):
            self._gone[run_id] = ErasedRun(run_id, seq, 0, None, has_owner=False)
        return FoldedCommit(before, run, events)

    def flush_later(self) -> None:
        """Start the timer of the next flush, or flush now if many rows are waiting."""
        if len(self._dirty) >= DIRTY_MAX:
            self.flush()
        elif self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_INTERVAL_SEC, self.flush)

    def flush(self) -> None:
        self.cancel_timer()
        if not self._dirty and not self._gone:
            return
        dirty = self._dirty
        rows = [row_of(changed) for changed in dirty.values() if not changed.run.gone]
        begun = [submitted_row(changed.run) for changed in dirty.values() if not changed.run.gone]
        self._table.write(rows, list(self._gone.values()), self._meta(), begun, self._waits, self._answers)
        self._dirty, self._waits, self._gone, self._answers = {}, {}, {}, []
        for run_id, changed in dirty.items():
            if changed.run.is_terminal:
                self._live.pop(run_id, None)
        if len(self._live) > CACHED_RUNS_MAX:
            self._live.clear()

    def cancel_timer(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    def clear(self) -> None:
        """Drop everything, also what is in the table."""
        self._live.clear()
        self._dirty.clear()
        self._gone.clear()
        self._waits.clear()
        self._answers.clear()
        self.tally.clear()
        self.days.clear()
        self._clock = 0.0
        self._table.wipe()

    def _change(self, before: Run | None, run: Run, seq: int) -> None:
        self.tally.change(before, run)
        self.days.change(before, run)
        if run.waits or (before is not None and before.waits):
            self._waits.update(wait_changes(before, run, seq))
        kept = slim(run) if run.tasks or run.params else run
        self._clock = max(self._clock, kept.updated_at)
        if run.gone:
            last_seq = self._last_seq(run.run_id)
            self._gone[run.run_id] = ErasedRun(run.run_id, seq, last_seq, run.tenant_id, has_owner=True)
        self._live[run.run_id] = kept
        self._dirty[run.run_id] = ChangedRun(kept, seq, self._clock)

    def _last_seq(self, run_id: str) -> int:
        changed = self._dirty.get(run_id)
        return changed.seq if changed is not None else self._table.place(run_id)

    def _load_tallies(self, tally: str | None, days: str | None) -> None:
        if tally:
            self.tally.load(tally)
        else:
            self.tally.fill(self._table.counts_by_tenant())
        if days:
            self.days.load(days)
        else:
            self.days.fill(self._table.changed_since(since()))
        recent = Filter(updated_after=clock.now() - MINUTES_KEPT * MINUTE_SEC)
        self.tally.remember(decode_all([found.state for found in self._table.find(recent, RECENT_RUNS_MAX)]))

    def _meta(self) -> dict[str, str]:
        return self._position().dump() | {
            "fed_at": str(clock.now()),
            "tally": self.tally.dump(),
            "days": self.days.dump(),
        }
