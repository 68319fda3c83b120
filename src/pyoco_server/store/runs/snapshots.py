"""The snapshots of runs: write them after a commit, renew heartbeats, and repair missing or stale ones.

A snapshot is a copy of the run with its position in the log. It is written under compare-and-set and never
replaces a newer one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import PyocoError, Unavailable
from pyoco_server.jetstream.api import STREAM_NOT_FOUND, JetStream, PubAck
from pyoco_server.jetstream.errors import BrokerRefused, WrongSequence
from pyoco_server.jetstream.kv import Bucket, KvEntry
from pyoco_server.jetstream.requests import NO_RESPONDERS
from pyoco_server.lifecycle.snapshot import RunSnapshot, snapshot_of
from pyoco_server.store import resources
from pyoco_server.store.runs.codec import decode_snapshot, encode_snapshot
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.supervision import start_task

log = logging.getLogger(__name__)

T = TypeVar("T")

PROJECT_TRIES_MAX = 8
HEALING_MAX = 8  # snapshots written at once while all are rebuilt
_TOO_LARGE = {"err_id": "ERR-PYOCO-0010", "msg_id": "MSG-PYOCO-0010"}


def may_be_missing(refused: BrokerRefused) -> bool:
    """Nothing answers for the bucket. The answer is the same while JetStream itself is away."""
    return refused.code in (NO_RESPONDERS, STREAM_NOT_FOUND)


class HeartbeatResult(NamedTuple):
    """The base of the next heartbeat. `is_behind`: the snapshot has a newer commit, or was removed."""

    stored: StoredRun
    is_behind: bool


class SnapshotStore:
    def __init__(
        self,
        jetstream: JetStream,
        config: NatsBackendConfig,
        run_ids: Callable[[], AsyncIterator[str]],
        load: Callable[[str], Awaitable[StoredRun | None]],
    ) -> None:
        """`run_ids` lists all runs that have a log. `load` reads one of them and heals its snapshot."""
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._prefix = config.events_subject_prefix
        self._run_ids = run_ids
        self._load = load
        self.bucket = _SnapshotBucket(jetstream, config, self._rebuild_soon)
        self._snapshot_bytes_max = config.max_run_snapshot_bytes
        self._healing: set[asyncio.Task[None]] = set()
        self._rebuilding: asyncio.Task[None] | None = None

    async def get(self, run_id: str) -> RunSnapshot | None:
        """The snapshot as it is stored, without later commits."""
        entry = await self.bucket.get(run_id)
        return decode_snapshot(entry.value) if entry.value else None

    def put_soon(self, stored: StoredRun) -> Awaitable[PubAck]:
        """Send the first snapshot of a run without waiting for the answer."""
        return self.bucket.put_soon(stored.run.run_id, self._encoded(stored), revision=0)

    async def project(self, stored: StoredRun) -> StoredRun:
        """Write the snapshot, unless there is a newer one."""
        for _ in range(PROJECT_TRIES_MAX):
            try:
                return replace(stored, revision=await self._write(stored))
            except WrongSequence:
                entry = await self.bucket.get_at_leader(stored.run.run_id)
                stored = replace(stored, revision=entry.revision)
                if await self._is_superseded(stored, entry):
                    return stored
        return stored

    async def overwrite(self, stored: StoredRun) -> StoredRun | None:
        """Replace the snapshot of the revision of `stored`; None if that is no longer the last revision."""
        try:
            return replace(stored, revision=await self._write(stored))
        except WrongSequence:
            return None

    async def beat(self, stored: StoredRun, at: float) -> HeartbeatResult:
        """Renew `heartbeat_at`. A snapshot that was written meanwhile is not replaced."""
        try:
            revision = await self._beat(self._snapshot(stored), at, stored.revision)
        except WrongSequence:
            return await self._beat_on_theirs(stored, at)
        return HeartbeatResult(replace(stored, revision=revision), is_behind=False)

    async def remove(self, run_id: str) -> None:
        """Remove the snapshot of a run that is no longer in the log, without a mark of the deletion."""
        await self.bucket.remove(run_id)

    def heal_soon(self, stored: StoredRun) -> None:
        healing = start_task(self._heal(stored), "healing a snapshot")
        self._healing.add(healing)
        healing.add_done_callback(self._healing.discard)

    async def close(self) -> None:
        if self._rebuilding is not None:
            self._rebuilding.cancel()
        if self._healing:
            await asyncio.wait(self._healing, timeout=1.0)

    async def _is_superseded(self, stored: StoredRun, entry: KvEntry) -> bool:
        theirs = decode_snapshot(entry.value) if entry.value else None
        if theirs is not None:
            return theirs.pyoco.log_seq >= stored.log_seq
        if stored.run.gone:
            return False
        # There is no snapshot, perhaps because the run was erased meanwhile: the log decides.
        last = await self._jetstream.last_at_leader(self._stream, f"{self._prefix}.{stored.run.run_id}")
        return last is None or last.seq > stored.log_seq

    async def _beat(self, snapshot: RunSnapshot, at: float, revision: int) -> int:
        beating = replace(snapshot, heartbeat_at=max(at, snapshot.heartbeat_at))
        return await self.bucket.put(snapshot.run_id, encode_snapshot(beating), revision=revision)

    async def _beat_on_theirs(self, stored: StoredRun, at: float) -> HeartbeatResult:
        """Renew only the heartbeat of a newer snapshot, and only if it has the same claim.

        `stored` then keeps its revision, so that the next heartbeat does not replace the newer snapshot.
        """
        entry = await self.bucket.get_at_leader(stored.run.run_id)
        theirs = decode_snapshot(entry.value) if entry.value else None
        if theirs is None:
            if await self._is_superseded(stored, entry):
                return HeartbeatResult(stored, is_behind=True)
            return HeartbeatResult(
                await self.project(replace(stored, revision=entry.revision)), is_behind=False
            )
        if theirs.pyoco.log_seq > stored.log_seq:
            if theirs.pyoco.claim == stored.run.claim:
                with contextlib.suppress(WrongSequence):
                    await self._beat(theirs, at, entry.revision)
            return HeartbeatResult(stored, is_behind=True)
        return HeartbeatResult(replace(stored, revision=entry.revision), is_behind=False)

    def _rebuild_soon(self) -> None:
        if self._rebuilding is None or self._rebuilding.done():
            self._rebuilding = start_task(self._rebuild(), "rebuilding snapshots")

    async def _rebuild(self) -> None:
        """Write the snapshot of every run that has a log. Until then readers fold the log."""
        count = 0
        try:
            async for run_id in self._run_ids():
                await self._load(run_id)  # reading heals the snapshot
                count += 1
                while len(self._healing) >= HEALING_MAX:
                    await asyncio.wait(self._healing, return_when=asyncio.FIRST_COMPLETED)
        except Unavailable as error:
            log.warning("snapshots not rebuilt; readers will", extra={"runs": count, "error": error.message})
        else:
            log.info("snapshots rebuilt", extra={"runs": count})

    async def _heal(self, stored: StoredRun) -> None:
        try:
            await self.project(stored)
            log.info("snapshot healed", extra={"run_id": stored.run.run_id, "commits": stored.commits})
        except PyocoError as error:  # the next reader tries again
            log.warning("snapshot not healed", extra={"run_id": stored.run.run_id, "error": repr(error)})

    async def _write(self, stored: StoredRun) -> int:
        if stored.run.gone:
            return await self.bucket.delete(stored.run.run_id, revision=stored.revision)
        return await self.bucket.put(stored.run.run_id, self._encoded(stored), revision=stored.revision)

    def _encoded(self, stored: StoredRun) -> bytes:
        encoded = encode_snapshot(self._snapshot(stored))
        if len(encoded) > self._snapshot_bytes_max:
            # Nothing more can be left out. The snapshot is written anyway, so that readers see the status.
            fields = {
                "run_id": stored.run.run_id,
                "bytes": len(encoded),
                "bytes_max": self._snapshot_bytes_max,
            }
            log.error("snapshot too large", extra=fields | _TOO_LARGE)
        return encoded

    def _snapshot(self, stored: StoredRun) -> RunSnapshot:
        return snapshot_of(
            stored.run, max_bytes=self._snapshot_bytes_max, commits=stored.commits, log_seq=stored.log_seq
        )


class _SnapshotBucket(Bucket):
    """The bucket of the snapshots, created again when it is missing. It is only a copy of the log.

    An operator or a tool may delete it. The process that finds it missing creates it, repeats its request and
    calls `on_created`. The repetition is safe: the broker has refused the request, so it had no effect.
    """

    def __init__(
        self, jetstream: JetStream, config: NatsBackendConfig, on_created: Callable[[], None]
    ) -> None:
        super().__init__(jetstream, config.runs_kv_bucket)
        self._config = config
        self._on_created = on_created
        self._creating: asyncio.Task[None] | None = None

    async def get(self, key: str) -> KvEntry:
        return await self._with_bucket(lambda: super(_SnapshotBucket, self).get(key))

    async def get_at_leader(self, key: str) -> KvEntry:
        return await self._with_bucket(lambda: super(_SnapshotBucket, self).get_at_leader(key))

    async def put(self, key: str, value: bytes, *, revision: int | None = None, ttl: str = "") -> int:
        put = super().put
        return await self._with_bucket(lambda: put(key, value, revision=revision, ttl=ttl))

    async def delete(self, key: str, *, revision: int | None = None, ttl: str = "") -> int:
        """Followers of the bucket see the deletion. Then its mark is removed too: the key has no revision."""
        mark = await self._with_bucket(
            lambda: super(_SnapshotBucket, self).delete(key, revision=revision, ttl=ttl)
        )
        await self.remove(key, upto=mark)
        return 0

    async def _with_bucket(self, request: Callable[[], Awaitable[T]]) -> T:
        try:
            return await request()
        except BrokerRefused as refused:
            if not may_be_missing(refused):
                raise
        await self._create()
        return await request()

    async def _create(self) -> None:
        """Once for all waiters. Raises Unavailable while the broker cannot answer whether it exists."""
        if self._creating is None or self._creating.done():
            self._creating = asyncio.get_running_loop().create_task(self._create_if_missing())
            self._creating.add_done_callback(_retrieve_exception)
        await asyncio.shield(self._creating)

    async def _create_if_missing(self) -> None:
        if await resources.ensure_snapshots(self._jetstream, self._config):
            log.warning("the bucket of the snapshots was missing", extra={"stream": self.stream})
            self._on_created()


def _retrieve_exception(creating: asyncio.Task[None]) -> None:
    """All waiters may have been cancelled, and asyncio logs errors that were never retrieved."""
    if not creating.cancelled():
        creating.exception()
