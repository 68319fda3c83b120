"""The lists of strategies, results and requests: tables that are filled from the bucket of rechecks.

A copy for reading, like that of runs: it continues from its position after a restart, and is filled again if
it is missing or too old, if the bucket was created again, or if the broker has lost messages. Open batches
are known as soon as the message of their request arrives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, assert_never

import msgspec

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.headers import value_of
from pyoco_server.jetstream.ordered_consumer import OrderedConsumer
from pyoco_server.jetstream.stream_position import StreamPosition
from pyoco_server.read_model import recheck_rows as writing
from pyoco_server.read_model.recheck_queries import RecheckQueries
from pyoco_server.read_model.recheck_table import RecheckTable
from pyoco_server.recheck.records import Request, run_id_of, run_ids_of
from pyoco_server.store.rechecks import (
    RecheckRecordKind,
    decode_outcome,
    decode_request,
    decode_strategy,
    position_of,
)

log = logging.getLogger(__name__)

FLUSH_INTERVAL_SEC = 0.2
# At most so many are written at once, so that requests are answered in between.
WAITING_MAX = 500
TOO_OLD_SEC = 48 * 3600.0
FORGET_EVERY_SEC = 3600.0


class OpenBatch(NamedTuple):
    request_id: str
    batch: int


class _Waiting(NamedTuple):
    key: str
    seq: int
    is_deleted: bool
    data: bytes


class RecheckModel:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = f"KV_{config.rechecks_kv_bucket}"
        self._wait_sec = config.list_wait_sec
        self._kept_sec = config.recheck_kept_sec
        path = Path(f"{config.read_model_path}.rechecks") if config.read_model_path else None
        self._table = RecheckTable(path)
        self._feed = OrderedConsumer(
            client,
            jetstream,
            self._stream,
            f"$KV.{config.rechecks_kv_bucket}",
            self._on_message,
            on_lost=self._on_lost,
        )
        self._waiting: list[_Waiting] = []
        self._flusher: asyncio.TimerHandle | None = None
        self._forgot_at = 0.0
        self._started = False
        self._on_request: list[Callable[[Request], None]] = []
        self._on_change: list[Callable[[], None]] = []
        self._queries = RecheckQueries(self._table)
        # By the id of its run.
        self.open: dict[str, OpenBatch] = {}

    async def start(self) -> None:
        self._feed.start(self._stored_position())
        self.open = self._open_batches()
        self._started = True

    async def stop(self) -> None:
        await self._feed.stop()
        if self._flusher is not None:
            self._flusher.cancel()
        if self._started:
            self._flush()
        self._table.close()

    def handle_reconnect(self) -> None:
        self._feed.handle_reconnect()

    def why_not(self) -> str | None:
        return None if self._feed.is_receiving else "the list of strategies is not being followed"

    def on_request(self, act: Callable[[Request], None]) -> None:
        """Call this with every request that has batches to be run."""
        self._on_request.append(act)

    def on_change(self, act: Callable[[], None]) -> None:
        """Call this after every message."""
        self._on_change.append(act)

    async def catch_up(self) -> RecheckQueries:
        """The tables with everything that was stored before this call."""
        target = await self._jetstream.last_seq(self._stream)
        if not await self._feed.catch_up(target, self._wait_sec):
            behind = max(0, target - self._feed.reached)
            raise Unavailable(f"The list of strategies is being rebuilt ({behind} to go). Try again.")
        return self.current()

    def current(self) -> RecheckQueries:
        """The tables with everything that was read so far."""
        self._flush()
        return self._queries

    def _open_batches(self) -> dict[str, OpenBatch]:
        rows = self._table.rows("SELECT run_id, request_id, batch FROM open_batches")
        batches = msgspec.convert(rows, list[tuple[str, str, int]])
        return {run_id: OpenBatch(request_id, batch) for run_id, request_id, batch in batches}

    def _stored_position(self) -> StreamPosition:
        meta = self._table.meta()
        stream_position = StreamPosition.load(meta)
        if clock.now() - float(meta.get("fed_at", 0)) < TOO_OLD_SEC and stream_position.position:
            return stream_position
        self._table.wipe()
        return StreamPosition()

    def _on_lost(self, _created: str, _last_seq: int) -> None:
        self._waiting.clear()
        self.open.clear()
        self._table.wipe()
        self._queries.invalidate()
        for act in self._on_change:
            act()

    def _on_message(self, key: str, seq: int, headers: bytes, data: bytes) -> None:
        one = _Waiting(key, seq, value_of(headers, b"KV-Operation") is not None, data)
        self._waiting.append(one)
        for act in self._on_change:
            act()
        with _skip_unreadable(key):
            self._note_open(one)
        if len(self._waiting) >= WAITING_MAX:
            self._flush()
        elif self._flusher is None:
            self._flusher = asyncio.get_running_loop().call_later(FLUSH_INTERVAL_SEC, self._flush)

    def _note_open(self, one: _Waiting) -> None:
        if one.key.startswith(f"{RecheckRecordKind.OUTCOME}."):
            request_id, batch = one.key.split(".")[2:]
            self.open.pop(run_id_of(request_id, int(batch)), None)
        elif one.key.startswith(f"{RecheckRecordKind.REQUEST}.") and not one.is_deleted:
            request = decode_request(one.data)
            if not request.dry_run:
                for batch_no, run_id in enumerate(run_ids_of(request.request_id, request.batches)):
                    self.open[run_id] = OpenBatch(request.request_id, batch_no)
                for act in self._on_request:
                    act(request)

    def _flush(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        if not self._waiting:
            return
        with self._table.transaction():  # after any error, such as a full disk, the next flush writes all
            self._write_all()
        self._waiting.clear()
        self._queries.invalidate()

    def _write_all(self) -> None:
        for one in self._waiting:
            with _skip_unreadable(one.key):
                self._write(one)
        now = clock.now()
        if now - self._forgot_at > FORGET_EVERY_SEC:
            self._forgot_at = now
            writing.forget_older(self._table, now - self._kept_sec)
            self.open = self._open_batches()
        self._table.write_meta(self._feed.stream_position.dump() | {"fed_at": str(now)})

    def _write(self, one: _Waiting) -> None:
        place = position_of(one.key)
        if place is None or (one.is_deleted and place.kind is not RecheckRecordKind.STRATEGY):
            return
        match place.kind:
            case RecheckRecordKind.STRATEGY if one.is_deleted:
                writing.erase_strategy(self._table, place.tenant, place.name)
            case RecheckRecordKind.STRATEGY:
                writing.write_strategy(self._table, place.tenant, decode_strategy(one.data))
            case RecheckRecordKind.PROFILES:
                self._table.run("INSERT OR REPLACE INTO profiles VALUES (?, ?)", place.tenant, one.data)
            case RecheckRecordKind.REQUEST:
                writing.write_request(self._table, decode_request(one.data))
            case RecheckRecordKind.OUTCOME:
                writing.write_outcome(self._table, place.tenant, one.seq, decode_outcome(one.data))
            case _:
                assert_never(place.kind)


@contextmanager
def _skip_unreadable(key: str) -> Iterator[None]:
    """A message that cannot be read must not stop the others."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError) as error:
        log.warning("a message of the rechecks cannot be read", extra={"key": key, "error": str(error)})
