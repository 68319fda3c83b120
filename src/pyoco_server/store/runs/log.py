"""Runs at rest: the event log, which is the truth, and the snapshot bucket, which is a copy of it.

A commit is appended at the sequence its decision was made on; whoever committed then writes the snapshot
under compare-and-set. Readers fold what the snapshot lacks. Decides nothing: see `operations.runs.apply`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.ids import new_token
from pyoco_server.jetstream.api import JetStream, PubAck, StoredMessage
from pyoco_server.jetstream.confirmed_reads import CONFIRM_TRIES_MAX, MARK, confirm
from pyoco_server.jetstream.errors import AnswerLost, BrokerRefused, WrongSequence
from pyoco_server.jetstream.kv import KvEntry
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.events import Event, RunDiscarded, RunErased, RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import RunSnapshot, snapshot_of
from pyoco_server.names import is_run_id
from pyoco_server.store.runs.codec import decode_commit, decode_snapshot, encode_snapshot
from pyoco_server.store.runs.commits import Commit, commit_no
from pyoco_server.store.runs.history import LogReading
from pyoco_server.store.runs.run_cache import WholeRunCache
from pyoco_server.store.runs.snapshots import SnapshotBucket, may_be_missing
from pyoco_server.store.runs.stored_run import (
    NewCommit,
    StoredRun,
    base_of,
    commit_on,
    folded,
    is_continued,
    is_left_behind,
    nowhere,
)
from pyoco_server.supervision import noticed

__all__ = ["Commit", "Overtaken", "Runs", "StoredRun", "new_commit_id"]

log = logging.getLogger(__name__)

APPEND_TRIES_MAX = 3
PROJECT_TRIES_MAX = 8
HEALING_MAX = 8  # snapshots written at once while all are rebuilt
_TOO_LARGE = {"err_id": "ERR-PYOCO-0010", "msg_id": "MSG-PYOCO-0010"}


class Overtaken(Exception):
    """Somebody committed first. Carries the run with their commits folded in."""

    def __init__(self, now: StoredRun | None) -> None:
        super().__init__("the run has moved on")
        self.now = now


class HeartbeatResult(NamedTuple):
    """What the next beat goes by. `is_behind`: the snapshot shows a newer commit, or is gone for good."""

    stored: StoredRun
    is_behind: bool


def new_commit_id() -> str:
    return new_token()


class Runs(LogReading):
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        super().__init__(jetstream, config)
        self._bucket = SnapshotBucket(jetstream, config, self._rebuild_soon)
        self._snapshot_bytes_max = config.max_run_snapshot_bytes
        self._healing: set[asyncio.Task[None]] = set()
        self._rebuilding: asyncio.Task[None] | None = None
        self._whole = WholeRunCache()

    async def create(
        self,
        submission: RunSubmitted,
        commit_id: str,
        more: Sequence[Event] = (),
        meta: CommitMeta | None = None,
    ) -> StoredRun:
        """The first commit and the first snapshot, side by side: the one case where that is safe."""
        events = (submission, *more)
        run = fold(None, events)
        assert run is not None
        born = nowhere(run)
        commit = commit_on(born, run, events, commit_id, meta)
        sent = self._send(commit)
        snapshot = self._bucket.put_soon(run.run_id, self._encoded(replace(born, commits=1)), revision=0)
        try:
            appended = await self._committed(sent, commit)
        except BaseException:
            asyncio.ensure_future(snapshot).add_done_callback(_unheard)
            raise
        try:
            return replace(appended, revision=(await snapshot).seq)
        except WrongSequence:
            # A reader was faster, somebody who lost against us, or it is left from an earlier life.
            return await self.project(appended)
        except BrokerRefused as refused:
            if not may_be_missing(refused):
                raise
            return await self.project(appended)

    async def append(
        self,
        at: StoredRun | None,
        events: Sequence[Event],
        commit_id: str,
        *,
        leads_to: Run | None = None,
        meta: CommitMeta | None = None,
    ) -> StoredRun:
        """Commit events decided on `at`. Raises Overtaken; a lost answer is looked up, never guessed.

        `leads_to`: these events folded, if the caller has done so already.
        """
        run = leads_to or fold(at.run if at else None, events)
        assert run is not None, "events that leave no run were decided on no run"
        commit = commit_on(at or nowhere(run), run, events, commit_id, meta)
        return await self._committed(self._send(commit), commit)

    async def load(self, run_id: str, *, at_leader: bool = False, whole: bool = False) -> StoredRun | None:
        """The run as the log has it. `whole`: with all tasks, also those that a snapshot leaves out.

        `at_leader`: what was committed before this call is in it, unless the node that answers was cut off
        from the others; and None is what a majority says. A refusal needs `load_confirmed` or `is_latest`.
        """
        if not is_run_id(run_id):
            return None  # a wildcard in its place would find somebody else's
        entry, last = await asyncio.gather(*self._reads(run_id, at_leader))
        if last is None and at_leader and not await self.is_latest(run_id, None):
            entry, last = await asyncio.gather(*self._reads(run_id, at_leader))
            if last is None:  # the node that was asked does not have what a majority has
                raise AnswerLost(self._subject(run_id))
        if last is None:
            return None
        snapshot = decode_snapshot(entry.value) if entry.value else None
        max_bytes = self._snapshot_bytes_max
        base = base_of(snapshot, last, whole=whole, max_bytes=max_bytes) if snapshot else None
        from_log = whole and base is None
        if from_log:
            base = self._whole.before(run_id, last)
        forwarded = await self._forwarded(run_id, base, last, at_leader)
        if forwarded is None:
            return None
        stored = replace(forwarded, revision=entry.revision)
        if from_log:
            self._whole.keep(stored)
        behind = is_left_behind(snapshot, stored, last, at_leader=at_leader, max_bytes=max_bytes)
        if behind and not whole:
            self._heal_soon(stored)
        return stored

    async def load_confirmed(self, run_id: str, *, whole: bool = False) -> StoredRun | None:
        """The run as a majority has it at some moment of this call: a ground to refuse a request on."""
        for _ in range(CONFIRM_TRIES_MAX):
            stored = await self.load(run_id, at_leader=True, whole=whole)
            if stored is None or await self.is_latest(run_id, stored):
                return stored
        raise Unavailable(f"Run {run_id} changes too fast to be read. Try again.")

    async def is_latest(self, run_id: str, stored: StoredRun | None) -> bool:
        """Whether nothing was committed after `stored` (None: there is no run), as a majority knows.

        The mark of an erased run is proof enough: no run begins at its place while it lives.
        """
        subject, seq = self._subject(run_id), stored.log_seq if stored else 0
        if await confirm(self._jetstream, self._stream, self._subject(MARK), subject, seq):
            return True
        return stored is None and await self._has_last(run_id, RunErased)

    async def project(self, stored: StoredRun) -> StoredRun:
        """Write the snapshot, unless a newer one is there already."""
        for _ in range(PROJECT_TRIES_MAX):
            try:
                return replace(stored, revision=await self._write(stored))
            except WrongSequence:
                entry = await self._bucket.get_at_leader(stored.run.run_id)
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

    async def snapshot(self, run_id: str) -> RunSnapshot | None:
        """As stored, folded no further."""
        entry = await self._bucket.get(run_id)
        return decode_snapshot(entry.value) if entry.value else None

    async def remove_snapshot(self, run_id: str) -> None:
        """Of a run that the log does not have any more. Nothing is left, no mark of its deletion either."""
        await self._bucket.remove(run_id)

    async def was_discarded(self, run_id: str) -> bool:
        """Whether its submission was given up: then no worker has executed it."""
        return await self._has_last(run_id, RunDiscarded)

    async def close(self) -> None:
        if self._rebuilding is not None:
            self._rebuilding.cancel()
        if self._healing:
            await asyncio.wait(self._healing, timeout=1.0)

    def _send(self, commit: NewCommit) -> Awaitable[PubAck]:
        return self._jetstream.publish_soon(self._subject(commit.run.run_id), commit.data, commit.headers)

    async def _committed(self, sent: Awaitable[PubAck], commit: NewCommit) -> StoredRun:
        at = commit.at
        for tries_left in reversed(range(APPEND_TRIES_MAX)):
            try:
                return StoredRun(
                    run=commit.run,
                    commits=at.commits + 1,
                    log_seq=(await sent).seq,
                    revision=at.revision,
                    chain=commit.chain,
                )
            except WrongSequence:
                if (found := await self._mine_or_overtaken(at, commit.commit_id)) is not None:
                    return found
                if not tries_left:
                    raise AnswerLost(self._subject(commit.run.run_id)) from None
            except AnswerLost:
                if not tries_left:
                    raise
            # It may be in the log or not. Sending the same commit again at the same sequence is
            # harmless: it is refused if the first one arrived, and then we find ourselves.
            sent = self._send(commit)
        raise AssertionError("unreachable")

    async def _mine_or_overtaken(self, at: StoredRun, commit_id: str) -> StoredRun | None:
        """The run with our commit in it; None when the leader shows neither ours nor another's.

        Others may have committed after mine, and before it: an earlier try may have been decided again.
        """
        run_id, is_first = at.run.run_id, not at.commits
        newer = await self._jetstream.after_at_leader(self._stream, self._subject(run_id), at.log_seq)
        if not is_first and not is_continued(at, newer):
            raise Overtaken(await self.load(run_id, at_leader=True, whole=True))
        now = folded(None if is_first else at, newer)
        if now is not None and any(message.header(b"Pyoco-Commit") == commit_id for message in newer):
            return now
        if newer:
            raise Overtaken(now)
        if is_first:
            return None
        # Another sequence, and nothing newer: what we stand on is not in the log any more, or a commit
        # became visible between the refusal and this reading. That one may be ours.
        now = await self.load(run_id, at_leader=True, whole=True)
        if now is not None and now.log_seq > at.log_seq:
            return None
        raise Overtaken(now)

    async def _has_last(self, run_id: str, kind: type[Event]) -> bool:
        """Whether such an event is in the last commit."""
        last = await self._jetstream.last_at_leader(self._stream, self._subject(run_id))
        events = decode_commit(last.data) if last is not None else []
        return any(isinstance(event, kind) for event in events)

    def _reads(
        self, run_id: str, at_leader: bool
    ) -> tuple[Coroutine[Any, Any, KvEntry], Coroutine[Any, Any, StoredMessage | None]]:
        subject = self._subject(run_id)
        if at_leader:
            return self._bucket.get_at_leader(run_id), self._jetstream.last_at_leader(self._stream, subject)
        return self._bucket.get(run_id), self._jetstream.last(self._stream, subject)

    async def _forwarded(
        self, run_id: str, base: StoredRun | None, last: StoredMessage, at_leader: bool
    ) -> StoredRun | None:
        behind = commit_no(last) - (base.commits if base else 0)
        if behind == 0:
            return base
        read_on = self._jetstream.after_at_leader if at_leader else self._jetstream.after
        newer = [last]
        if behind != 1:
            newer = await read_on(self._stream, self._subject(run_id), base.log_seq if base else 0)
        if base is not None and not is_continued(base, newer):
            # It stands on a commit that the broker has lost.
            return folded(None, await read_on(self._stream, self._subject(run_id), 0))
        return folded(base, newer)

    async def _is_superseded(self, stored: StoredRun, entry: KvEntry) -> bool:
        theirs = decode_snapshot(entry.value) if entry.value else None
        if theirs is not None:
            return theirs.pyoco.log_seq >= stored.log_seq
        if stored.run.gone:
            return False
        # There is none, perhaps because the run was erased meanwhile: only the log knows.
        last = await self._jetstream.last_at_leader(self._stream, self._subject(stored.run.run_id))
        return last is None or last.seq > stored.log_seq

    async def _beat(self, snapshot: RunSnapshot, at: float, revision: int) -> int:
        beating = replace(snapshot, heartbeat_at=max(at, snapshot.heartbeat_at))
        return await self._bucket.put(snapshot.run_id, encode_snapshot(beating), revision=revision)

    async def _beat_on_theirs(self, stored: StoredRun, at: float) -> HeartbeatResult:
        """A newer snapshot stays as it is but for the heartbeat, and only while our claim stands in it.

        The revision we know is then kept as it is, so that the next beat does not write ours over it.
        """
        entry = await self._bucket.get_at_leader(stored.run.run_id)
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
            self._rebuilding = noticed(
                asyncio.get_running_loop().create_task(self._rebuild()), "rebuilding snapshots"
            )

    async def _rebuild(self) -> None:
        """Every run that has a log gets its snapshot back. Until then readers fold the log."""
        count = 0
        try:
            async for run_id in self.ids():
                await self.load(run_id)  # what is missing is healed by its readers
                count += 1
                while len(self._healing) >= HEALING_MAX:
                    await asyncio.wait(self._healing, return_when=asyncio.FIRST_COMPLETED)
        except Unavailable as error:
            log.warning("snapshots not rebuilt; readers will", extra={"runs": count, "error": error.message})
        else:
            log.info("snapshots rebuilt", extra={"runs": count})

    def _heal_soon(self, stored: StoredRun) -> None:
        healing = noticed(asyncio.get_running_loop().create_task(self._heal(stored)), "healing a snapshot")
        self._healing.add(healing)
        healing.add_done_callback(self._healing.discard)

    async def _heal(self, stored: StoredRun) -> None:
        try:
            await self.project(stored)
            log.info("snapshot healed", extra={"run_id": stored.run.run_id, "commits": stored.commits})
        except Exception as error:  # a reader's favour: the next one tries again
            log.warning("snapshot not healed", extra={"run_id": stored.run.run_id, "error": repr(error)})

    async def _write(self, stored: StoredRun) -> int:
        if stored.run.gone:
            return await self._bucket.delete(stored.run.run_id, revision=stored.revision)
        return await self._bucket.put(stored.run.run_id, self._encoded(stored), revision=stored.revision)

    def _encoded(self, stored: StoredRun) -> bytes:
        encoded = encode_snapshot(self._snapshot(stored))
        if len(encoded) > self._snapshot_bytes_max:
            # Nothing is left to leave out: written all the same, for a status that is not shown helps nobody.
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


def _unheard(done: asyncio.Future[PubAck]) -> None:
    """Nobody is interested any more; asyncio would complain about an error that nobody has looked at."""
    if not done.cancelled():
        done.exception()
