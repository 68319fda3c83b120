"""The list of runs: follow the event log, fold it into `run_table`, and notify about commits.

It is a copy for reading. A restart continues from the stored position. The log is read again from its
beginning if the file is missing or older than the lifetime of the mark of an erased run, if the stream was
created again, or if the broker has lost commits. Until it is known which of these holds, and while the log is
read again, `catch_up` waits.

The parts: this file follows the log, `run_writer` folds and writes, `run_notifications` calls back.
"""

from __future__ import annotations

from pathlib import Path

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.headers import number_of
from pyoco_server.jetstream.ordered_consumer import OrderedConsumer
from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.erased_runs import KEPT_MAX as GONE_MAX
from pyoco_server.read_model.housekeeping_queries import HousekeepingQueries
from pyoco_server.read_model.run_notifications import RunNotifications
from pyoco_server.read_model.run_pages import PagePosition, next_page
from pyoco_server.read_model.run_rows import FoundRun, newest_first
from pyoco_server.read_model.run_table import Filter, RunTable
from pyoco_server.read_model.run_writer import RunWriter
from pyoco_server.supervision import Loop


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
        self.feed.rewind()

    def _on_commit(self, run_id: str, seq: int, headers: bytes, data: bytes) -> None:
        before, run, events = self._writer.fold(run_id, seq, headers, data)
        if run is not None:
            self.notifications.send_new_commit(seq, before, run, events)
        self.notifications.send_commit(run_id, seq, number_of(headers, b"Pyoco-Commit-No"), events)
        self.target = max(self.target, seq)
        self._writer.flush_later()

    def _on_lost(self, _created: str, last_seq: int) -> None:
        self._writer.clear()
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
