"""The worker registry of appendix F: who works here, doing what, and whether it is shown.

A worker writes how it is; that it is gone it cannot write. `state_when_read` says so, from its silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, NotFound, Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket

NOT_FOUND = "ERR-PYOCO-0020"

# Of so many who write one entry at once, each gets its turn.
WRITE_TRIES_MAX = 20

# Every entry has these, also before there is anything to say.
NOTHING_YET: Mapping[str, Any] = {
    "hidden": False,
    "current_run_id": None,
    "last_run_id": None,
    "last_run_status": None,
    "last_run_started_at": None,
    "last_run_finished_at": None,
    "stopped_at": None,
    "stop_reason": None,
}
# The operator's, like `hidden`: the instance that is to take no new runs. Null when that was taken back; not
# there when nothing was set, also because the entry was lost.
DRAIN = "drain_instance_id"

Record = dict[str, Any]


class WrittenEntry(NamedTuple):
    """`record` is None for what a deletion has left, and for what is no entry."""

    worker_id: str
    record: Record | None
    revision: int
    at: float


class WorkerState(StrEnum):
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"


def state_when_read(entry: Mapping[str, Any], now: float, timeout_sec: float) -> WorkerState:
    """Silent for longer than the timeout is DISCONNECTED, unless it said goodbye (appendix G)."""
    written, seen_at = entry.get("state"), entry.get("last_seen_at")
    if written == WorkerState.STOPPED_GRACEFUL:
        return WorkerState.STOPPED_GRACEFUL
    if written not in (WorkerState.RUNNING, WorkerState.IDLE) or not isinstance(seen_at, int | float):
        return WorkerState.DISCONNECTED
    return WorkerState.DISCONNECTED if now - seen_at > timeout_sec else WorkerState(written)


class WorkerRegistry:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._client = client
        self._jetstream = jetstream
        self._bucket = Bucket(jetstream, config.workers_kv_bucket)

    async def get(self, worker_id: str, *, at_leader: bool = False) -> Record | None:
        entry = await (self._bucket.get_at_leader if at_leader else self._bucket.get)(worker_id)
        return _record(entry.value)

    async def list(self, *, written_since: float | None = None) -> list[Record]:
        """All entries, or those written since then. Living workers write, so they cost the same
        however many are gone. Nothing is kept for this between two questions."""
        bucket = self._bucket
        if written_since is None:
            messages = await bucket.after(">")
        else:
            messages = await self._jetstream.since(bucket.stream, bucket.prefix + ">", written_since)
        # An entry that was written again during this read is there twice; the later one counts.
        found = {bucket.key_of(message): _record(message.data) for message in messages}
        return [record | {"worker_id": name} for name, record in found.items() if record is not None]

    async def follow(self, on_written: Callable[[str], None]) -> None:
        """Call this with the name of every worker whose entry is written or removed from now on."""
        skip = len(self._bucket.prefix)

        def on_message(written: bytes, _reply: bytes, _headers: bytes, _data: bytes) -> None:
            on_written(written[skip:].decode())

        await self._client.listen(self._bucket.prefix + ">", on_message)

    async def follow_one(self, worker_id: str, on_written: Callable[[Record], None]) -> None:
        """Call this with what anybody tries to write into one entry: whether it was accepted is read."""

        def on_message(_written: bytes, _reply: bytes, _headers: bytes, data: bytes) -> None:
            if (record := _record(data)) is not None:
                on_written(record)

        await self._client.listen(self._bucket.prefix + worker_id, on_message)

    async def merge(self, worker_id: str, changes: Record) -> None:
        """Change these members and keep the others: `hidden` is the operator's, the rest the worker's."""
        await self._write(worker_id, lambda record: (record or {}) | changes)

    async def change(self, worker_id: str, changes_of: Callable[[Record], Record]) -> None:
        """The same for an entry that is there; which members change may depend on how it is.

        A Conflict that this raises is confirmed before it is believed.
        """

        def changed(record: Record | None) -> Record:
            if record is None:
                raise NotFound(f"There is no worker {worker_id}. Look at GET /workers.", err_id=NOT_FOUND)
            return record | changes_of(record)

        await self._write(worker_id, changed)

    async def oldest(self, count: int) -> Sequence[WrittenEntry]:
        """Entries that were not written for longest. One key has one message, so the stream is in order."""
        return [
            WrittenEntry(self._bucket.key_of(one), _record(one.data), one.seq, one.stored_at or 0.0)
            for one in await self._bucket.page(">", count)
        ]

    async def remove(self, worker_id: str, *, revision: int) -> None:
        """Those who follow hear of it. Raises WrongSequence when it was written since.

        What the deletion leaves is removed too: only up to there, for the worker may be back already.
        """
        deletion = await self._bucket.delete(worker_id, revision=revision)
        await self.clear(worker_id, revision=deletion)

    async def clear(self, worker_id: str, *, revision: int) -> None:
        """Leave nothing of what was written into this entry up to then."""
        await self._bucket.remove(worker_id, upto=revision)

    async def _write(self, worker_id: str, changed: Callable[[Record | None], Record]) -> None:
        for _ in range(WRITE_TRIES_MAX):
            entry = await self._bucket.get_confirmed(worker_id)
            try:
                record = {"worker_id": worker_id, **NOTHING_YET} | changed(_record(entry.value))
                await self._bucket.put(worker_id, msgspec.json.encode(record), revision=entry.revision)
                return
            except WrongSequence:
                continue
            except Conflict:
                if await self._bucket.is_latest(worker_id, entry.revision):
                    raise
        raise Unavailable(f"The entry of worker {worker_id} changes too fast to be changed. Try again.")


def _record(value: bytes | None) -> Record | None:
    if not value:
        return None
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
