"""Runs as lists need them: folded from the feed, kept in `read_table`, with the position reached.

It is a copy for reading. A restart goes on from its position; a file that is missing, older than the mark
of an erased run lives, or of a stream that was made anew is filled again from the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.graph import named_only
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.store.client import BrokerClient
from pyoco_server.store.codec import decode_commit
from pyoco_server.store.feed import Feed
from pyoco_server.store.headers import number_of
from pyoco_server.store.jetstream import JetStream
from pyoco_server.store.read_rows import Changed, begun_of, row_of
from pyoco_server.store.read_table import Filter, Found, Over, ReadTable
from pyoco_server.store.read_waits import Key, OpenWait, WaitPlace, WaitRow, wait_changes
from pyoco_server.store.run_pages import Place, next_page
from pyoco_server.store.run_tally import MINUTE_SEC, MINUTES_KEPT, RunTally
from pyoco_server.store.tag_table import Last, Tagged

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


_decode = msgspec.json.Decoder(Run).decode


class ReadModel:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._wait_sec = config.list_wait_sec
        self._table = ReadTable(Path(config.read_model_path) if config.read_model_path else None)
        self.feed = Feed(
            client, jetstream, config.events_stream, config.events_subject_prefix, self._on_commit
        )
        self._live: dict[str, Run] = {}
        self._dirty: dict[str, Changed] = {}
        self._waits: dict[Key, WaitRow | None] = {}  # changed, and not written yet
        self._followers: dict[str, set[OnCommit]] = {}
        self._clock = 0.0
        self._flusher: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()
        self.tally = RunTally()
        self._on_news: list[OnNews] = []
        self._told = 0
        self._created = ""
        self._checking: asyncio.Task[None] | None = None
        self._started = False
        self.target = 0

    async def start(self) -> None:
        """Find out whether what is on disk can be continued, then follow the log."""
        info = await self._jetstream.api(f"STREAM.INFO.{self._stream}")
        self._created, last_seq = str(info["created"]), int(info["state"]["last_seq"])
        self.target = self._told = last_seq
        self.feed.start(self._position_to_continue(last_seq))
        self._started = True

    def reconnected(self) -> None:
        """Go on where we were; or anew, if the broker has come back with another log."""
        self._checking = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        try:
            info = await self._jetstream.api(f"STREAM.INFO.{self._stream}")
        except Unavailable:
            return  # disconnected again: the next reconnect asks again
        if str(info["created"]) != self._created:
            self._created = str(info["created"])
            self.target, self._told = 0, int(info["state"]["last_seq"])
            self.wipe()
        else:
            self.feed.reconnected()

    async def stop(self) -> None:
        await self.feed.stop()
        if self._flusher is not None:
            self._flusher.cancel()
        if self._started:
            self._flush()
        self._table.close()

    @property
    def log_created(self) -> str:
        """Which log this is a copy of: places in one mean nothing in another."""
        return self._created

    @property
    def lag(self) -> int:
        """Commits still to be read, as far as we know."""
        return max(0, self.target - self.feed.position)

    async def caught_up(self, within_sec: float | None = None) -> None:
        """Wait until everything that was committed before this call can be seen."""
        target = await self._jetstream.last_seq(self._stream)
        self.target = max(self.target, target)
        deadline = asyncio.get_running_loop().time() + (self._wait_sec if within_sec is None else within_sec)
        while self.feed.position < target:
            if asyncio.get_running_loop().time() >= deadline:
                behind = target - self.feed.position
                raise Unavailable(f"The list of runs is being rebuilt ({behind} commits to go). Try again.")
            await self._next_move(target)

    def page(self, wanted: Filter, limit: int) -> list[Run]:
        """Those that match and changed last, the newest first."""
        self._flush()
        return _newest_first(self._table.page(wanted, limit))

    def next_page(self, wanted: Filter, limit: int, place: Place | None) -> tuple[list[Run], Place | None]:
        """A page of many, and where the next one begins; None: all that match were shown as they are now."""
        self._flush()

        def read(above: int, below: int, most: int) -> list[Found]:
            return self._table.page(wanted, most, above=above, below=below)

        found, goes_on = next_page(read, limit, place, self.feed.position)
        return _newest_first(found), goes_on

    def begun(self, wanted: Tagged, limit: int, after: Last | None) -> list[Run]:
        """By tags, those submitted last first."""
        self._flush()
        return _decoded(self._table.begun(wanted, limit, after))

    def oldest_over(self, limit: int) -> list[Over]:
        """Those that are over, the longest unchanged first."""
        self._flush()
        return self._table.oldest_over(limit)

    def owed(self, tag: str, *, before: float, limit: int) -> list[Run]:
        self._flush()
        return _decoded(self._table.owed(tag, before, limit))

    def owed_before(self, tag: str, instant: float, *, at_most: int) -> int:
        """How many runs have waited longer for a worker of this tag; counted no further than `at_most`."""
        self._flush()
        return self._table.owed_before(tag, instant, at_most)

    def tags_that_owe(self) -> list[str]:
        self._flush()
        return self._table.tags_that_owe()

    def delayed(self, *, until: float, limit: int) -> list[Run]:
        """Those that were to start by then and were given no job yet."""
        self._flush()
        return _decoded(self._table.delayed(until, limit))

    def due(self, *, until: float, limit: int) -> list[Run]:
        """Those in which time alone changes something by then, the earliest first."""
        self._flush()
        return _decoded(self._table.due(until, limit))

    def next_due(self, *, after: float) -> float | None:
        self._flush()
        return self._table.next_due(after)

    def stuck_cancels(self, limit: int) -> list[Run]:
        """Asked to stop, held by nobody, and not over: should not be, and would stay so for ever."""
        self._flush()
        return _decoded(self._table.stuck_cancels(limit))

    def waiting(
        self, tenant: str | None, limit: int, after: WaitPlace | None = None
    ) -> list[tuple[WaitPlace, OpenWait]]:
        """What somebody has to answer, the longest waiting first, from this place on."""
        self._flush()
        return self._table.waiting(tenant, limit, after or WaitPlace(0, 0))

    def claiming_instances(self) -> set[str]:
        self._flush()
        return self._table.instances()

    def claimed_by(self, instance_id: str, limit: int) -> list[Run]:
        self._flush()
        return _decoded(self._table.claimed_by(instance_id, limit))

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
        return _decoded([one.state for one in reversed(found)])

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
        self._live.clear()
        self._dirty.clear()
        self._waits.clear()
        self.tally.clear()
        self._clock = 0.0
        self._table.wipe()
        self.feed.rewind()

    def _position_to_continue(self, last_seq: int) -> int:
        meta = self._table.meta()
        position = int(meta.get("position", 0))
        age_sec = time.time() - float(meta.get("fed_at", 0))
        fits = meta.get("created") == self._created and position <= last_seq
        if fits and age_sec < MARK_OF_ERASED_LIVES_SEC:
            self._take_up_tally(meta.get("tally"))
            self._clock = self._table.clock()
            return position
        if position:
            log.info("read model starts anew", extra={"position": position, "last_seq": last_seq})
        self._table.wipe()
        return 0

    def _on_commit(self, run_id: str, seq: int, headers: bytes, data: bytes) -> None:
        before = None if _FIRST_COMMIT in headers else self._known(run_id)
        events = decode_commit(data)
        run = fold(before, events)
        if run is not None:
            self.tally.change(before, run)
            if seq > self._told:
                self._told = seq
                for on_news in self._on_news:
                    on_news(before, run, events)
            if run.waits or (before is not None and before.waits):
                self._waits.update(wait_changes(before, run, seq))
            slim = _slim(run) if run.tasks or run.params else run
            self._clock = max(self._clock, slim.updated_at)
            self._live[run_id] = slim
            self._dirty[run_id] = Changed(slim, seq, self._clock)
        for on_commit in tuple(self._followers.get(run_id, ())):
            on_commit(seq, number_of(headers, b"Pyoco-Commit-No"), events)
        self.target = max(self.target, seq)
        self._moved.set()
        if len(self._dirty) >= DIRTY_MAX:
            self._flush()
        elif self._flusher is None:
            self._flusher = asyncio.get_running_loop().call_later(FLUSH_INTERVAL_SEC, self._flush)

    def _take_up_tally(self, dumped: str | None) -> None:
        if dumped:
            self.tally.load(dumped)
        else:
            self.tally.fill(self._table.counts_by_tenant())
        lately = Filter(updated_after=time.time() - MINUTES_KEPT * MINUTE_SEC)
        self.tally.remember(_decoded([found.state for found in self._table.page(lately, LATELY_MAX)]))

    def _known(self, run_id: str) -> Run | None:
        run = self._live.get(run_id)
        if run is None and (state := self._table.state(run_id)):
            run = _decode(state)
        return run

    def _flush(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        if not self._dirty:
            return
        dirty = self._dirty
        rows = [row_of(changed) for changed in dirty.values() if not changed.run.gone]
        begun = [begun_of(changed.run) for changed in dirty.values() if not changed.run.gone]
        gone = [run_id for run_id, changed in dirty.items() if changed.run.gone]
        self._table.write(rows, gone, self._meta(), begun, self._waits)
        self._dirty, self._waits = {}, {}
        for run_id, changed in dirty.items():
            if changed.run.is_terminal:
                self._live.pop(run_id, None)
        if len(self._live) > CACHED_RUNS_MAX:
            self._live.clear()

    def _meta(self) -> dict[str, str]:
        return {
            "position": str(self.feed.position),
            "created": self._created,
            "fed_at": str(time.time()),
            "tally": self.tally.dumped(),
        }

    async def _next_move(self, target: int) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(CONFIRM_AFTER_SEC):
                await self._moved.wait()
        except TimeoutError:
            await self.feed.confirm(target)


def _slim(run: Run) -> Run:
    """As lists need it. What there is to know of a task without its record (`due`) stays."""
    return replace(run, params={}, tasks={}, graph=named_only(run.graph))


def _decoded(states: list[bytes]) -> list[Run]:
    return [_decode(state) for state in states]


def _newest_first(found: list[Found]) -> list[Run]:
    """Which runs they are is a matter of the log; their order in one answer, of the instants it shows."""
    runs = [_decode(one.state) for one in found]
    return sorted(runs, key=lambda run: (run.updated_at, run.run_id), reverse=True)
