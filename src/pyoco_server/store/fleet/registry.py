"""The worker registry of appendix F: all workers, their state, and whether they are shown.

A worker writes its own state. It cannot write that it was lost: `state_when_read` derives that from its last
heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, NotFound, Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket

NOT_FOUND = "ERR-PYOCO-0020"

# So many writers can change one entry at once; each succeeds.
WRITE_TRIES_MAX = 20

# Every entry has these members from the beginning.
NOTHING_YET: Mapping[str, object] = {
    "hidden": False,
    "current_run_id": None,
    "last_run_id": None,
    "last_run_status": None,
    "last_run_started_at": None,
    "last_run_finished_at": None,
    "stopped_at": None,
    "stop_reason": None,
}
# Set by the operator, like `hidden`: the instance that takes no new runs. Null after draining was ended;
# missing if nothing was set, also because the entry was lost.
DRAIN = "drain_instance_id"

Record = dict[str, object]


class WrittenEntry(NamedTuple):
    """`record` is None for the mark of a deletion, and for an unreadable entry."""

    worker_id: str
    record: Record | None
    revision: int
    at: float


class WorkerState(StrEnum):
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"


def state_when_read(entry: Mapping[str, object], now: float, timeout_sec: float) -> WorkerState:
    """DISCONNECTED after a silence longer than the timeout, unless it stopped in order (appendix G)."""
    written, seen_at = entry.get("state"), entry.get("last_seen_at")
    if written == WorkerState.STOPPED_GRACEFUL:
        return WorkerState.STOPPED_GRACEFUL
    if written not in (WorkerState.RUNNING, WorkerState.IDLE) or not isinstance(seen_at, int | float):
        return WorkerState.DISCONNECTED
    return WorkerState.DISCONNECTED if now - seen_at > timeout_sec else WorkerState(str(written))


class WorkerRegistry:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._client = client
        self._jetstream = jetstream
        self._bucket = Bucket(jetstream, config.workers_kv_bucket)

    async def get(self, worker_id: str, *, at_leader: bool = False) -> Record | None:
        entry = await (self._bucket.get_at_leader if at_leader else self._bucket.get)(worker_id)
        return _record(entry.value)

    async def list(self, *, written_since: float | None = None) -> list[Record]:
        """All entries, or those written since then. Live workers write all the time, so the cost does not
        depend on the number of ended ones."""
        bucket = self._bucket
        if written_since is None:
            messages = await bucket.after(">")
        else:
            messages = await self._jetstream.since(bucket.stream, bucket.prefix + ">", written_since)
        # An entry that was written again during this read is there twice; the later one counts.
        found = {bucket.key_of(message): _record(message.data) for message in messages}
        return [record | {"worker_id": name} for name, record in found.items() if record is not None]

    async def follow(self, on_written: Callable[[bytes], None]) -> None:
        """Call this with every entry that is written from now on; empty for one that is removed."""

        def on_message(_written: bytes, _reply: bytes, _headers: bytes, data: bytes) -> None:
            on_written(data)

        await self._client.listen(self._bucket.prefix + ">", on_message)

    async def follow_one(self, worker_id: str, on_written: Callable[[Record], None]) -> None:
        """Call this with every write of one entry that is tried. It may be refused: read the entry."""

        def on_message(_written: bytes, _reply: bytes, _headers: bytes, data: bytes) -> None:
            if (record := _record(data)) is not None:
                on_written(record)

        await self._client.listen(self._bucket.prefix + worker_id, on_message)

    async def merge(self, worker_id: str, changes: Record) -> None:
        """Change these members and keep the others: `hidden` is the operator's, the rest the worker's."""
        await self._write(worker_id, lambda record: (record or {}) | changes)

    async def change(self, worker_id: str, changes_of: Callable[[Record], Record]) -> None:
        """The same for an existing entry; `changes_of` gets its present members.

        A Conflict that it raises is raised only after a majority has confirmed the entry.
        """

        def changed(record: Record | None) -> Record:
            if record is None:
                raise NotFound(f"There is no worker {worker_id}. Look at GET /workers.", err_id=NOT_FOUND)
            return record | changes_of(record)

        await self._write(worker_id, changed)

    async def oldest(self, count: int) -> Sequence[WrittenEntry]:
        """The entries with the oldest last write. One key has one message, so the stream is in this order."""
        return [
            WrittenEntry(self._bucket.key_of(one), _record(one.data), one.seq, one.stored_at or 0.0)
            for one in await self._bucket.page(">", count)
        ]

    async def remove(self, worker_id: str, *, revision: int) -> None:
        """Followers are notified. Raises WrongSequence if it was written since.

        The mark of the deletion is removed too, but no later write: the worker may have returned.
        """
        deletion = await self._bucket.delete(worker_id, revision=revision)
        await self.clear(worker_id, revision=deletion)

    async def clear(self, worker_id: str, *, revision: int) -> None:
        """Remove everything that was written into this entry up to this revision."""
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
        return msgspec.json.decode(value, type=dict[str, object])
    except msgspec.MsgspecError:
        return None
