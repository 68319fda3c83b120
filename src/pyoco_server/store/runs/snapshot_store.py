"""The snapshots of runs: write them after a commit, renew heartbeats, and repair missing or stale ones.

A snapshot is a copy of the log with its position in it. It is written under compare-and-set and never
replaces a newer one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import PyocoError, Unavailable
from pyoco_server.jetstream.api import JetStream, PubAck
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import KvEntry
from pyoco_server.lifecycle.snapshot import RunSnapshot, snapshot_of
from pyoco_server.store.runs.codec import decode_snapshot, encode_snapshot
from pyoco_server.store.runs.snapshots import SnapshotBucket
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.supervision import start_task

log = logging.getLogger(__name__)

PROJECT_TRIES_MAX = 8
HEALING_MAX = 8  # snapshots written at once while all are rebuilt
_TOO_LARGE = {"err_id": "ERR-PYOCO-0010", "msg_id": "MSG-PYOCO-0010"}


class HeartbeatResult(NamedTuple):
    """What the next beat goes by. `is_behind`: the snapshot shows a newer commit, or is gone for good."""

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
        """`run_ids`: of all runs that have a log. `load` reads one of them and heals its snapshot."""
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._prefix = config.events_subject_prefix
        self._run_ids = run_ids
        self._load = load
        self.bucket = SnapshotBucket(jetstream, config, self._rebuild_soon)
        self._snapshot_bytes_max = config.max_run_snapshot_bytes
        self._healing: set[asyncio.Task[None]] = set()
        self._rebuilding: asyncio.Task[None] | None = None

    async def get(self, run_id: str) -> RunSnapshot | None:
        """As stored, folded no further."""
        entry = await self.bucket.get(run_id)
        return decode_snapshot(entry.value) if entry.value else None

    def put_soon(self, stored: StoredRun) -> Awaitable[PubAck]:
        """Send the first snapshot of a run without waiting for the answer."""
        return self.bucket.put_soon(stored.run.run_id, self._encoded(stored), revision=0)

    async def project(self, stored: StoredRun) -> StoredRun:
        """Write the snapshot, unless a newer one is there already."""
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
        """Write the snapshot over the one of its revision; None if that one is not the last any more."""
        try:
            return replace(stored, revision=await self._write(stored))
        except WrongSequence:
            return None

    async def beat(self, stored: StoredRun, at: float) -> HeartbeatResult:
        """Renew `heartbeat_at`. Not history: yields to a snapshot that was written meanwhile."""
        try:
            revision = await self._beat(self._snapshot(stored), at, stored.revision)
        except WrongSequence:
            return await self._beat_on_theirs(stored, at)
        return HeartbeatResult(replace(stored, revision=revision), is_behind=False)

    async def remove(self, run_id: str) -> None:
        """Of a run that is no longer in the log. Nothing is left, not even a mark of the deletion."""
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
        # There is none, perhaps because the run was erased meanwhile: only the log knows.
        last = await self._jetstream.last_at_leader(self._stream, f"{self._prefix}.{stored.run.run_id}")
        return last is None or last.seq > stored.log_seq

    async def _beat(self, snapshot: RunSnapshot, at: float, revision: int) -> int:
        beating = replace(snapshot, heartbeat_at=max(at, snapshot.heartbeat_at))
        return await self.bucket.put(snapshot.run_id, encode_snapshot(beating), revision=revision)

    async def _beat_on_theirs(self, stored: StoredRun, at: float) -> HeartbeatResult:
        """A newer snapshot stays as it is but for the heartbeat, and only while our claim stands in it.

        The revision we know is then kept as it is, so that the next beat does not write ours over it.
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
        """Every run that has a log gets its snapshot back. Until then readers fold the log."""
        count = 0
        try:
            async for run_id in self._run_ids():
                await self._load(run_id)  # what is missing is healed by its readers
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
            # Nothing more can be left out. It is written all the same, so that the status is shown.
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
