"""The list of runs: follow the event log, fold it into `run_table`, and notify about commits.

It is a copy for reading. A restart continues from the stored position. The log is read again from its
beginning if the file is missing or older than the lifetime of the mark of an erased run, if the stream was
created again, or if the broker has lost commits. Until it is known which of these holds, and while the log is
read again, `catch_up` waits.

This file follows the log and calls back; `run_writer` folds and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.headers import number_of
from pyoco_server.jetstream.ordered_consumer import OrderedConsumer
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.erased_runs import KEPT_MAX as GONE_MAX
from pyoco_server.read_model.housekeeping_queries import HousekeepingQueries
from pyoco_server.read_model.recent_runs import RecentRuns
from pyoco_server.read_model.run_pages import PagePosition, next_page
from pyoco_server.read_model.run_rows import FoundRun, newest_first
from pyoco_server.read_model.run_table import Filter, RunTable
from pyoco_server.read_model.run_writer import RunWriter
from pyoco_server.supervision import Loop

# Sequence, number among the run's commits, events.
OnCommit = Callable[[int, int, Sequence[Event]], None]
# The run before (None: it begins) and after a commit, and its events.
OnNewCommit = Callable[[Run | None, Run, Sequence[Event]], None]


class ReadModel:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._wait_sec = config.list_wait_sec
        self.feed = OrderedConsumer(
            client,
            jetstream,
            config.events_stream,
            config.events_subject_prefix,
            self._on_commit,
            on_lost=self._on_lost,
        )
        self._table = RunTable(Path(config.read_model_path) if config.read_model_path else None)
        self._writer = RunWriter(self._table, lambda: self.feed.stream_position)
        self.tally, self.days = self._writer.tally, self._writer.days
        self.notifications = RunNotifications()
        self.recent = RecentRuns()
        # The broker has lost commits that were read, and the log has not been read again yet.
        self.is_rebuilding = False
        self.rebuilds = 0
        self._rebuild = Loop("rebuilding the list of runs", self._wait_until_rebuilt)
        self._started = False
        self.target = 0

    async def start(self) -> None:
        """Find out whether the file on disk can be continued, then follow the log."""
        self.target = await self._jetstream.last_seq(self._stream)
        self.notifications.skip_to(self.target)
        self.feed.start(self._writer.resume())
        self._rebuild.start()
        self._started = True

    def handle_reconnect(self) -> None:
        """Continue at the position reached, or at the beginning if the broker came back with another log."""
        self.feed.handle_reconnect()

    async def stop(self) -> None:
        await self._rebuild.stop()
        await self.feed.stop()
        self._writer.cancel_timer()
        if self._started:
            self._writer.flush()
        self._table.close()

    @property
    def runs(self) -> RunTable:
        """The table of runs, with every commit that was read. Do not keep it: later commits are not in it."""
        self._writer.flush()
        return self._table

    @property
    def housekeeping(self) -> HousekeepingQueries:
        """The queries of housekeeping on the same table."""
        return HousekeepingQueries(self.runs.connection)

    @property
    def log_created(self) -> str:
        """Identifies the log that was copied. A position of one log has no meaning in another."""
        return self.feed.stream_position.created

    @property
    def is_current(self) -> bool:
        """Whether commits arrive, and those that were read are known to be in the log."""
        return self.feed.is_verified and self.feed.is_receiving and not self.is_rebuilding

    @property
    def lag(self) -> int:
        """Commits still to be read, as far as is known."""
        return max(0, self.target - self.feed.reached)

    async def catch_up(self, within_sec: float | None = None) -> None:
        """Wait until everything that was committed before this call can be seen."""
        target = await self._jetstream.last_seq(self._stream)
        self.target = max(self.target, target)
        if not await self.feed.catch_up(target, self._wait_sec if within_sec is None else within_sec):
            behind = max(0, target - self.feed.reached)
            raise Unavailable(f"The list of runs is being rebuilt ({behind} commits to go). Try again.")

    def next_page(
        self, wanted: Filter, limit: int, place: PagePosition | None
    ) -> tuple[list[Run], PagePosition | None]:
        """A page, and where the next one begins. None: all that match were shown in their current state."""
        table = self.runs

        def read(above: int, below: int, most: int) -> list[FoundRun]:
            return table.find(wanted, most, above=above, below=below)

        found, goes_on = next_page(read, limit, place, self.feed.position)
        return newest_first(found), goes_on

    def find(self, run_id: str) -> Run | None:
        """Without its tasks, as far as the log has been read. Needs no flush."""
        run = self._writer.find(run_id)
        return None if run is None or run.gone else run

    def find_going_on(self, run_id: str) -> Run | None:
        """The run without its tasks, if all its commits were received since the start and it has not ended.

        None also for a run that is not in memory.
        """
        run = self._writer.find_in_memory(run_id)
        return run if run is not None and not run.is_terminal and run_id in self.recent else None

    async def holds(self, seq: int, stored_at: str) -> bool:
        """Whether a position that a reader was given is a position of the current log.

        Where the commit itself is gone, the erasure of its run has to explain that.
        """
        if self.is_rebuilding or not self.feed.is_verified:
            return False
        if not seq:
            return True
        found = await self._jetstream.at_leader(self._stream, seq)
        if found is not None:
            return found.stored_at_ns == stored_at
        return any(one.before == seq for one in self.runs.erased_after(seq, GONE_MAX))

    def wipe(self) -> None:
        """Drop everything and read the log again."""
        self._writer.clear()
        self.recent.clear()
        self.feed.rewind()

    def _on_commit(self, run_id: str, seq: int, headers: bytes, data: bytes) -> None:
        number = number_of(headers, b"Pyoco-Commit-No")
        if self.notifications.is_new(seq):
            self.recent.add(run_id, seq, number, data)
        before, run, events = self._writer.fold(run_id, seq, headers, data)
        if run is not None:
            self.notifications.send_new_commit(seq, before, run, events)
            if run.is_terminal:
                self.recent.note_end(run_id)
                self.notifications.send_end(run_id)
        self.notifications.send_commit(run_id, seq, number, events)
        self.target = max(self.target, seq)
        self._writer.flush_later()

    def _on_lost(self, _created: str, last_seq: int) -> None:
        self._writer.clear()
        self.recent.clear()
        self.target = last_seq
        self.notifications.skip_to(last_seq)
        self.is_rebuilding = True
        self.rebuilds += 1
        self._rebuild.wake()

    async def _wait_until_rebuilt(self) -> None:
        while self.lag or not self.feed.is_verified:
            if self._rebuild.is_stopping:
                return
            await self.feed.next_move(self.target)
        self.is_rebuilding = False
        self.notifications.send_rebuilt()


class RunNotifications:
    """Callbacks on every new commit, on the commits of one run, and after a rebuild."""

    def __init__(self) -> None:
        self._on_new_commit: list[OnNewCommit] = []
        self._on_rebuilt: list[Callable[[], None]] = []
        self._followers: dict[str, set[OnCommit]] = {}
        self._followers_of_end: dict[str, set[Callable[[], None]]] = {}
        self._notified_seq = 0

    def on_new_commit(self, callback: OnNewCommit) -> None:
        """Call this once with every commit made from now on, but not with commits that are read again."""
        self._on_new_commit.append(callback)

    def on_rebuilt(self, callback: Callable[[], None]) -> None:
        """Call this after a rebuild: the broker had lost commits, and the whole log was read again."""
        self._on_rebuilt.append(callback)

    def follow(self, run_id: str, on_commit: OnCommit) -> None:
        """Call this with every commit of the run from now on, also with those that are read again."""
        self._followers.setdefault(run_id, set()).add(on_commit)

    def unfollow(self, run_id: str, on_commit: OnCommit) -> None:
        followers = self._followers.get(run_id, set())
        followers.discard(on_commit)
        if not followers:
            self._followers.pop(run_id, None)

    def follow_end(self, run_id: str, on_end: Callable[[], None]) -> None:
        """Call this with the commit that ends the run, and with every one after it."""
        self._followers_of_end.setdefault(run_id, set()).add(on_end)

    def unfollow_end(self, run_id: str, on_end: Callable[[], None]) -> None:
        followers = self._followers_of_end.get(run_id, set())
        followers.discard(on_end)
        if not followers:
            self._followers_of_end.pop(run_id, None)

    def skip_to(self, seq: int) -> None:
        """Commits up to this sequence are not new."""
        self._notified_seq = seq

    def is_new(self, seq: int) -> bool:
        return seq > self._notified_seq

    def send_new_commit(self, seq: int, before: Run | None, run: Run, events: Sequence[Event]) -> None:
        if not self.is_new(seq):
            return
        self._notified_seq = seq
        for callback in self._on_new_commit:
            callback(before, run, events)

    def send_commit(self, run_id: str, seq: int, number: int, events: Sequence[Event]) -> None:
        for callback in tuple(self._followers.get(run_id, ())):
            callback(seq, number, events)

    def send_end(self, run_id: str) -> None:
        for callback in tuple(self._followers_of_end.get(run_id, ())):
            callback()

    def send_rebuilt(self) -> None:
        for callback in self._on_rebuilt:
            callback()
