"""Runs as lists need them: folded from the feed, kept in `run_table`, with the position reached.

It is a copy for reading. A restart goes on from its position; a file that is missing, older than the mark
of an erased run lives, of a stream that was created again, or of commits that the broker has lost is filled
again from the log. Until it is known which of these holds, and while it is filled, `caught_up` waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.headers import number_of
from pyoco_server.jetstream.ordered_consumer import OrderedConsumer
from pyoco_server.jetstream.stream_position import StreamPosition
from pyoco_server.lifecycle.events import Event, RunErased
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.day_tally import DayTally, since
from pyoco_server.read_model.erased_runs import KEPT_MAX as GONE_MAX
from pyoco_server.read_model.erased_runs import Gone
from pyoco_server.read_model.housekeeping_queries import HousekeepingQueries
from pyoco_server.read_model.run_pages import PagePosition, next_page
from pyoco_server.read_model.run_rows import ChangedRun, begun_of, decode, decoded, newest_first, row_of, slim
from pyoco_server.read_model.run_table import Filter, FoundRun, ReadTable
from pyoco_server.read_model.run_tally import MINUTE_SEC, MINUTES_KEPT, RunTally
from pyoco_server.read_model.tag_table import Last, Tagged
from pyoco_server.read_model.waits import Key, WaitRow, wait_changes
from pyoco_server.store.runs.codec import decode_commit
from pyoco_server.supervision import Loop

log = logging.getLogger(__name__)

# Reading flushes first, so this only bounds how much a restart has to read again.
FLUSH_INTERVAL_SEC = 0.2
DIRTY_MAX = 2_000
CACHED_RUNS_MAX = 20_000
MARK_OF_ERASED_LIVES_SEC = 48 * 3600.0
# When the position stands still this long before a list's target, the messages up to it may be gone.
CONFIRM_AFTER_SEC = 0.25
# Of how many runs a gateway that comes up looks when they came and ended.
LATELY_MAX = 20_000

# Sequence, number among the run's commits, events.
OnCommit = Callable[[int, int, Sequence[Event]], None]
# The run before (None: it begins) and after a commit, and its events.
OnNews = Callable[[Run | None, Run, Sequence[Event]], None]

_FIRST_COMMIT = b"Pyoco-Commit-No: 1\r\n"


class ReadModel(HousekeepingQueries):
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._wait_sec = config.list_wait_sec
        self._table = ReadTable(Path(config.read_model_path) if config.read_model_path else None)
        self._moved = asyncio.Event()
        self.feed = OrderedConsumer(
            client,
            jetstream,
            config.events_stream,
            config.events_subject_prefix,
            self._on_commit,
            on_lost=self._on_lost,
            on_moved=self._moved.set,
        )
        self._live: dict[str, Run] = {}
        self._dirty: dict[str, ChangedRun] = {}
        self._gone: dict[str, Gone] = {}  # erased, and not written yet
        self._waits: dict[Key, WaitRow | None] = {}  # changed, and not written yet
        self._followers: dict[str, set[OnCommit]] = {}
        self._clock = 0.0
        self._flusher: asyncio.TimerHandle | None = None
        self.tally = RunTally()
        self.days = DayTally()
        self._on_news: list[OnNews] = []
        self._on_rebuilt: list[Callable[[], None]] = []
        self._told = 0
        # What was known is not in the log any more, and what is there has not been read yet.
        self.is_rebuilding = False
        self.rebuilds = 0
        self._rebuild = Loop("rebuilding the list of runs", self._see_it_rebuilt)
        self._started = False
        self.target = 0

    async def start(self) -> None:
        """Find out whether what is on disk can be continued, then follow the log."""
        self.target = self._told = await self._jetstream.last_seq(self._stream)
        self.feed.start(self._footing())
        self._rebuild.start()
        self._started = True

    def reconnected(self) -> None:
        """Go on where we were; or from the beginning, if the broker has come back with another log."""
        self.feed.reconnected()

    async def stop(self) -> None:
        await self._rebuild.stop()
        await self.feed.stop()
        if self._flusher is not None:
            self._flusher.cancel()
        if self._started:
            self._flush()
        self._table.close()

    @property
    def log_created(self) -> str:
        """Which log this is a copy of: places in one mean nothing in another."""
        return self.feed.footing.created

    @property
    def lag(self) -> int:
        """Commits still to be read, as far as we know."""
        return max(0, self.target - self.feed.reached)

    async def caught_up(self, within_sec: float | None = None) -> None:
        """Wait until everything that was committed before this call can be seen."""
        target = await self._jetstream.last_seq(self._stream)
        self.target = max(self.target, target)
        deadline = asyncio.get_running_loop().time() + (self._wait_sec if within_sec is None else within_sec)
        while self.feed.reached < target or not self.feed.is_verified:
            if asyncio.get_running_loop().time() >= deadline:
                behind = max(0, target - self.feed.reached)
                raise Unavailable(f"The list of runs is being rebuilt ({behind} commits to go). Try again.")
            await self._next_move(target)

    def page(self, wanted: Filter, limit: int) -> list[Run]:
        """Those that match and changed last, the newest first."""
        self._flush()
        return newest_first(self._table.page(wanted, limit))

    def next_page(
        self, wanted: Filter, limit: int, place: PagePosition | None
    ) -> tuple[list[Run], PagePosition | None]:
        """A page of many, and where the next one begins; None: all that match were shown as they are now."""
        self._flush()

        def read(above: int, below: int, most: int) -> list[FoundRun]:
            return self._table.page(wanted, most, above=above, below=below)

        found, goes_on = next_page(read, limit, place, self.feed.position)
        return newest_first(found), goes_on

    def begun(self, wanted: Tagged, limit: int, after: Last | None) -> list[Run]:
        """By tags, those submitted last first."""
        self._flush()
        return decoded(self._table.begun(wanted, limit, after))

    def count(self) -> int:
        self._flush()
        return self._table.count()

    def counts(self, tenant: str | None = None) -> Mapping[str, int]:
        """How many runs stand in each status. Kept from commit to commit, and never counted again."""
        return self.tally.of(tenant)

    def changed_after(self, seq: int, tenant: str | None, limit: int) -> list[Run]:
        """Those whose last change stands after this place of the log, the oldest change first."""
        self._flush()
        found = self._table.page(Filter(tenant=tenant), limit, above=seq)
        return decoded([one.state for one in reversed(found)])

    def gone_after(self, seq: int, limit: int) -> list[Gone]:
        """Those that were erased after this place of the log, the oldest first; of the latest thousand."""
        self._flush()
        return self._table.gone_after(seq, limit)

    async def holds(self, seq: int, stored_at: str) -> bool:
        """Whether a place that a reader was told is one of the log as it is now.

        Where the commit itself is gone, the erasure of its run has to explain that.
        """
        if self.is_rebuilding or not self.feed.is_verified:
            return False
        if not seq:
            return True
        found = await self._jetstream.at_leader(self._stream, seq)
        if found is not None:
            return found.stored_at_ns == stored_at
        return any(one.before == seq for one in self.gone_after(seq, GONE_MAX))

    def flows(self, tenant: str | None, limit: int) -> list[str]:
        """The names of flows that were run."""
        self._flush()
        return self._table.flows(tenant, limit)

    def oldest_owed(self) -> dict[str, float]:
        """By tag: since when the run that has waited longest for a worker has waited."""
        self._flush()
        return {tag: self._table.owed_since(tag) for tag in self._table.tags_that_owe()}

    def find(self, run_id: str) -> Run | None:
        """Without its tasks, as far as the log has been read."""
        run = self._known(run_id)
        return None if run is None or run.gone else run

    def on_news(self, on_news: OnNews) -> None:
        """Call this with every commit made from now on, once: not with those that are only read again."""
        self._on_news.append(on_news)

    def on_rebuilt(self, act: Callable[[], None]) -> None:
        """Call this when everything was thrown away, because the broker has lost it, and read again."""
        self._on_rebuilt.append(act)

    def follow(self, run_id: str, on_commit: OnCommit) -> None:
        """Call this with every commit of the run from now on, also with those that are read again."""
        self._followers.setdefault(run_id, set()).add(on_commit)

    def unfollow(self, run_id: str, on_commit: OnCommit) -> None:
        followers = self._followers.get(run_id, set())
        followers.discard(on_commit)
        if not followers:
            self._followers.pop(run_id, None)

    def wipe(self) -> None:
        """Throw everything away and read the log again."""
        self._forget_all()
        self.feed.rewind()

    def _forget_all(self) -> None:
        self._live.clear()
        self._dirty.clear()
        self._gone.clear()
        self._waits.clear()
        self.tally.clear()
        self.days.clear()
        self._clock = 0.0
        self._table.wipe()

    def _on_lost(self, _created: str, last_seq: int) -> None:
        self._forget_all()
        self.target = self._told = last_seq
        self.is_rebuilding = True
        self.rebuilds += 1
        self._rebuild.wake()

    async def _see_it_rebuilt(self) -> None:
        while self.lag or not self.feed.is_verified:
            if self._rebuild.is_stopping:
                return
            await self._next_move(self.target)
        self.is_rebuilding = False
        for act in self._on_rebuilt:
            act()

    def _footing(self) -> StreamPosition:
        """Where the file can be continued, if the log is still the one it was read from."""
        meta = self._table.meta()
        footing = StreamPosition.loaded(meta)
        if clock.now() - float(meta.get("fed_at", 0)) < MARK_OF_ERASED_LIVES_SEC and footing.position:
            self._take_up_tally(meta.get("tally"), meta.get("days"))
            self._clock = self._table.clock()
            return footing
        if footing.position:
            log.info("the read model is too old and is filled again", extra={"position": footing.position})
        self._table.wipe()
        return StreamPosition()

    def _on_commit(self, run_id: str, seq: int, headers: bytes, data: bytes) -> None:
        before = None if _FIRST_COMMIT in headers else self._known(run_id)
        events = decode_commit(data)
        run = fold(before, events)
        if run is not None:
            self.tally.change(before, run)
            self.days.change(before, run)
            if seq > self._told:
                self._told = seq
                for on_news in self._on_news:
                    on_news(before, run, events)
            if run.waits or (before is not None and before.waits):
                self._waits.update(wait_changes(before, run, seq))
            kept = slim(run) if run.tasks or run.params else run
            self._clock = max(self._clock, kept.updated_at)
            if run.gone:
                self._gone[run_id] = Gone(run_id, seq, self._place(run_id), run.tenant_id, has_owner=True)
            self._live[run_id] = kept
            self._dirty[run_id] = ChangedRun(kept, seq, self._clock)
        elif any(isinstance(event, RunErased) for event in events):
            self._gone[run_id] = Gone(run_id, seq, 0, None, has_owner=False)
        for on_commit in tuple(self._followers.get(run_id, ())):
            on_commit(seq, number_of(headers, b"Pyoco-Commit-No"), events)
        self.target = max(self.target, seq)
        self._moved.set()
        if len(self._dirty) >= DIRTY_MAX:
            self._flush()
        elif self._flusher is None:
            self._flusher = asyncio.get_running_loop().call_later(FLUSH_INTERVAL_SEC, self._flush)

    def _take_up_tally(self, dumped: str | None, days: str | None) -> None:
        if dumped:
            self.tally.load(dumped)
        else:
            self.tally.fill(self._table.counts_by_tenant())
        if days:
            self.days.load(days)
        else:
            self.days.fill(self._table.changed_since(since()))
        lately = Filter(updated_after=clock.now() - MINUTES_KEPT * MINUTE_SEC)
        self.tally.remember(decoded([found.state for found in self._table.page(lately, LATELY_MAX)]))

    def _known(self, run_id: str) -> Run | None:
        run = self._live.get(run_id)
        if run is None and (state := self._table.state(run_id)):
            run = decode(state)
        return run

    def _place(self, run_id: str) -> int:
        changed = self._dirty.get(run_id)
        return changed.seq if changed is not None else self._table.place(run_id)

    def _flush(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        if not self._dirty and not self._gone:
            return
        dirty = self._dirty
        rows = [row_of(changed) for changed in dirty.values() if not changed.run.gone]
        begun = [begun_of(changed.run) for changed in dirty.values() if not changed.run.gone]
        self._table.write(rows, list(self._gone.values()), self._meta(), begun, self._waits)
        self._dirty, self._waits, self._gone = {}, {}, {}
        for run_id, changed in dirty.items():
            if changed.run.is_terminal:
                self._live.pop(run_id, None)
        if len(self._live) > CACHED_RUNS_MAX:
            self._live.clear()

    def _meta(self) -> dict[str, str]:
        return self.feed.footing.dumped() | {
            "fed_at": str(clock.now()),
            "tally": self.tally.dumped(),
            "days": self.days.dumped(),
        }

    async def _next_move(self, target: int) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(CONFIRM_AFTER_SEC):
                await self._moved.wait()
        except TimeoutError:
            await self.feed.confirm(target)
