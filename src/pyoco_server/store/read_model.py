"""Runs as lists need them: folded from the feed, kept in `read_table`, with the position reached.

It is a copy for reading. A restart goes on from its position; a file that is missing, older than the mark
of an erased run lives, or of a stream that was made anew is filled again from the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run, owes_job
from pyoco_server.store.client import BrokerClient
from pyoco_server.store.codec import decode_commit
from pyoco_server.store.feed import Feed
from pyoco_server.store.jetstream import JetStream
from pyoco_server.store.read_table import Filter, ReadTable, Row

log = logging.getLogger(__name__)

# Reading flushes first, so this only bounds how much a restart has to read again.
FLUSH_INTERVAL_SEC = 0.2
DIRTY_MAX = 2_000
CACHED_RUNS_MAX = 20_000
MARK_OF_ERASED_LIVES_SEC = 48 * 3600.0
# When the position stands still this long before a list's target, the messages up to it may be gone.
CONFIRM_AFTER_SEC = 0.25

OnChange = Callable[[Run], None]

_FIRST_COMMIT = b"Pyoco-Commit-No: 1\r\n"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Run).decode


class ReadModel:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._wait_sec = config.list_wait_sec
        self._table = ReadTable(Path(config.read_model_path) if config.read_model_path else None)
        self.feed = Feed(client, jetstream, config, self._on_commit)
        self._watchers: dict[str, set[OnChange]] = {}
        self._live: dict[str, Run] = {}
        self._dirty: dict[str, Run] = {}
        self._flusher: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()
        self._created = ""
        self._checking: asyncio.Task[None] | None = None
        self._started = False
        self.target = 0

    async def start(self) -> None:
        """Find out whether what is on disk can be continued, then follow the log."""
        info = await self._jetstream.api(f"STREAM.INFO.{self._stream}")
        self._created, last_seq = str(info["created"]), int(info["state"]["last_seq"])
        self.target = last_seq
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
            self.target = 0
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
    def lag(self) -> int:
        """Commits still to be read, as far as we know."""
        return max(0, self.target - self.feed.position)

    async def caught_up(self) -> None:
        """Wait until everything that was committed before this call can be seen."""
        target = await self._jetstream.last_seq(self._stream)
        self.target = max(self.target, target)
        deadline = asyncio.get_running_loop().time() + self._wait_sec
        while self.feed.position < target:
            if asyncio.get_running_loop().time() >= deadline:
                behind = target - self.feed.position
                raise Unavailable(f"The list of runs is being rebuilt ({behind} commits to go). Try again.")
            await self._next_move(target)

    def page(self, wanted: Filter, limit: int) -> list[Run]:
        self._flush()
        return _decoded(self._table.page(wanted, limit))

    def owed(self, tag: str, *, before: float, limit: int) -> list[Run]:
        self._flush()
        return _decoded(self._table.owed(tag, before, limit))

    def tags_that_owe(self) -> list[str]:
        self._flush()
        return self._table.tags_that_owe()

    def stuck_cancels(self, limit: int) -> list[Run]:
        """Asked to stop, held by nobody, and not over: should not be, and would stay so for ever."""
        self._flush()
        return _decoded(self._table.stuck_cancels(limit))

    def claiming_instances(self) -> set[str]:
        self._flush()
        return self._table.instances()

    def claimed_by(self, instance_id: str, limit: int) -> list[Run]:
        self._flush()
        return _decoded(self._table.claimed_by(instance_id, limit))

    def count(self) -> int:
        self._flush()
        return self._table.count()

    def watch(self, run_id: str, on_change: OnChange) -> None:
        """Call this with the run, without its tasks, at every commit from now on."""
        self._watchers.setdefault(run_id, set()).add(on_change)

    def unwatch(self, run_id: str, on_change: OnChange) -> None:
        watchers = self._watchers.get(run_id, set())
        watchers.discard(on_change)
        if not watchers:
            self._watchers.pop(run_id, None)

    def wipe(self) -> None:
        """Throw everything away and read the log again."""
        self._live.clear()
        self._dirty.clear()
        self._table.wipe()
        self.feed.rewind()

    def _position_to_continue(self, last_seq: int) -> int:
        meta = self._table.meta()
        position = int(meta.get("position", 0))
        age_sec = time.time() - float(meta.get("fed_at", 0))
        fits = meta.get("created") == self._created and position <= last_seq
        if fits and age_sec < MARK_OF_ERASED_LIVES_SEC:
            return position
        if position:
            log.info("read model starts anew", extra={"position": position, "last_seq": last_seq})
        self._table.wipe()
        return 0

    def _on_commit(self, run_id: str, seq: int, headers: bytes, data: bytes) -> None:
        is_first = _FIRST_COMMIT in headers
        run = fold(None if is_first else self._known(run_id), decode_commit(data))
        if run is not None:
            slim = replace(run, params={}, tasks={}) if run.tasks or run.params else run
            self._live[run_id] = self._dirty[run_id] = slim
            for on_change in tuple(self._watchers.get(run_id, ())):
                on_change(slim)
        self.target = max(self.target, seq)
        self._moved.set()
        if len(self._dirty) >= DIRTY_MAX:
            self._flush()
        elif self._flusher is None:
            self._flusher = asyncio.get_running_loop().call_later(FLUSH_INTERVAL_SEC, self._flush)

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
        rows = [_row(run) for run in dirty.values() if not run.gone]
        gone = [run.run_id for run in dirty.values() if run.gone]
        self._table.write(rows, gone, self._meta())
        self._dirty = {}
        for run in dirty.values():
            if run.is_terminal:
                self._live.pop(run.run_id, None)
        if len(self._live) > CACHED_RUNS_MAX:
            self._live.clear()

    def _meta(self) -> dict[str, str]:
        return {
            "position": str(self.feed.position),
            "created": self._created,
            "fed_at": str(time.time()),
        }

    async def _next_move(self, target: int) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(CONFIRM_AFTER_SEC):
                await self._moved.wait()
        except TimeoutError:
            await self.feed.confirm(target)


def _decoded(states: list[bytes]) -> list[Run]:
    return [_decode(state) for state in states]


def _row(run: Run) -> Row:
    return Row(
        run_id=run.run_id,
        tenant=run.tenant_id,
        flow=run.flow_name,
        tag=run.tag,
        status=run.status.value,
        updated_at=run.updated_at,
        owed_since=run.job_owed_since if owes_job(run) else None,
        instance=run.claim.instance_id if run.claim else None,
        stuck_cancel=1 if run.cancel and owes_job(run) else None,
        state=_encode(run),
    )
