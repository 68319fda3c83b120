"""Runs at rest: the event log, which is the truth, and the snapshot bucket, which is a copy of it.

A commit is appended at the sequence its decision was made on; whoever committed then writes the snapshot
under compare-and-set. Readers fold what the snapshot lacks. Decides nothing: see `operations.apply`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Coroutine, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.ids import new_token
from pyoco_server.lifecycle.events import Event, RunErased, RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import RunSnapshot, run_of, snapshot_of
from pyoco_server.store.codec import decode_commit, decode_snapshot, encode_commit, encode_snapshot
from pyoco_server.store.errors import AnswerLost, WrongSequence
from pyoco_server.store.headers import number_of
from pyoco_server.store.jetstream import JetStream, PubAck, StoredMessage
from pyoco_server.store.keyvalue import Bucket, Entry
from pyoco_server.tags import is_run_id

log = logging.getLogger(__name__)

ERASED_MARK_TTL = "48h"
APPEND_TRIES_MAX = 3
PROJECT_TRIES_MAX = 8
# A snapshot behind a commit of just now is most likely being written this moment by whoever committed.
HEAL_AFTER_SEC = 2.0
_TOO_LARGE = {"err_id": "ERR-PYOCO-0010", "msg_id": "MSG-PYOCO-0010"}


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run and where it stands: commits folded, sequence of the last one, revision of its snapshot."""

    run: Run
    commits: int
    log_seq: int
    revision: int
    heartbeat_at: float = 0.0


class Overtaken(Exception):
    """Somebody committed first. Carries the run with their commits folded in."""

    def __init__(self, now: StoredRun | None) -> None:
        super().__init__("the run has moved on")
        self.now = now


def new_commit_id() -> str:
    return new_token()


class Runs:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._prefix = config.events_subject_prefix
        self._bucket = Bucket(jetstream, config.runs_kv_bucket)
        self._snapshot_bytes_max = config.max_run_snapshot_bytes
        self._healing: set[asyncio.Task[None]] = set()

    async def create(self, submission: RunSubmitted, commit_id: str, more: Sequence[Event] = ()) -> StoredRun:
        """The first commit and the first snapshot, side by side: the one case where that is safe."""
        events = (submission, *more)
        run = fold(None, events)
        assert run is not None
        born = _nowhere(run)
        commit = self._send_commit(born, events, commit_id)
        snapshot = self._bucket.put_soon(run.run_id, self._encoded(replace(born, commits=1)), revision=0)
        try:
            appended = await self._committed(commit, born, run, events, commit_id)
        except BaseException:
            asyncio.ensure_future(snapshot).add_done_callback(_unheard)
            raise
        try:
            return replace(appended, revision=(await snapshot).seq)
        except WrongSequence:
            # A reader was faster, somebody who lost against us, or it is left from an earlier life.
            return await self.project(appended)

    async def append(
        self, at: StoredRun | None, events: Sequence[Event], commit_id: str, *, leads_to: Run | None = None
    ) -> StoredRun:
        """Commit events decided on `at`. Raises Overtaken; a lost answer is looked up, never guessed.

        `leads_to`: these events folded, if the caller has done so already.
        """
        run = leads_to or fold(at.run if at else None, events)
        assert run is not None, "events that leave no run were decided on no run"
        at = at or _nowhere(run)
        return await self._committed(self._send_commit(at, events, commit_id), at, run, events, commit_id)

    async def load(self, run_id: str, *, at_leader: bool = False, whole: bool = False) -> StoredRun | None:
        """The run as the log has it. `whole`: with all tasks, also those that a snapshot leaves out."""
        if not is_run_id(run_id):
            return None  # a wildcard in its place would find somebody else's
        entry, last = await asyncio.gather(*self._reads(run_id, at_leader))
        if last is None:
            return None
        snapshot = decode_snapshot(entry.value) if entry.value else None
        base = _base(snapshot, last, whole=whole) if snapshot else None
        folded = await self._forwarded(run_id, base, last, at_leader)
        if folded is None:
            return None
        stored = replace(folded, revision=entry.revision)
        if not whole and _is_left_behind(snapshot, stored, last, at_leader):
            self._heal_soon(stored)
        return stored

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

    async def beat(self, stored: StoredRun, at: float) -> StoredRun:
        """Renew `heartbeat_at`. Not history: yields to whoever wrote meanwhile."""
        try:
            revision = await self._beat(self._snapshot(stored), at, stored.revision)
        except WrongSequence:
            return await self._beat_on_theirs(stored, at)
        return replace(stored, revision=revision)

    async def events(self, run_id: str) -> list[tuple[int, list[Event]]]:
        """The whole log of a run: sequence and events of each commit."""
        messages = await self._jetstream.after(self._stream, self._subject(run_id), 0)
        return [(message.seq, decode_commit(message.data)) for message in messages]

    async def submission(self, run_id: str) -> RunSubmitted | None:
        """The first event, which alone has the whole specification."""
        first = await self._jetstream.first(self._stream, self._subject(run_id))
        begun = next(iter(decode_commit(first.data)), None) if first else None
        return begun if isinstance(begun, RunSubmitted) else None

    async def snapshot(self, run_id: str) -> RunSnapshot | None:
        """As stored, folded no further."""
        entry = await self._bucket.get(run_id)
        return decode_snapshot(entry.value) if entry.value else None

    async def close(self) -> None:
        if self._healing:
            await asyncio.wait(self._healing, timeout=1.0)

    def _send_commit(self, at: StoredRun, events: Sequence[Event], commit_id: str) -> Awaitable[PubAck]:
        headers = _commit_headers(at, events, commit_id)
        return self._jetstream.publish_soon(self._subject(at.run.run_id), encode_commit(events), headers)

    async def _committed(
        self, sent: Awaitable[PubAck], at: StoredRun, run: Run, events: Sequence[Event], commit_id: str
    ) -> StoredRun:
        for tries_left in reversed(range(APPEND_TRIES_MAX)):
            try:
                seq = (await sent).seq
                return StoredRun(run=run, commits=at.commits + 1, log_seq=seq, revision=at.revision)
            except WrongSequence:
                return await self._mine_or_overtaken(at, commit_id)
            except AnswerLost:
                # It may be in the log or not. Sending the same commit again at the same sequence is
                # harmless: it is refused if the first one arrived, and then we find ourselves.
                if not tries_left:
                    raise
                sent = self._send_commit(at, events, commit_id)
        raise AssertionError("unreachable")

    async def _mine_or_overtaken(self, at: StoredRun, commit_id: str) -> StoredRun:
        """Others may have committed after mine, and before it: an earlier try may have been decided anew."""
        run_id = at.run.run_id
        newer = await self._jetstream.after_at_leader(self._stream, self._subject(run_id), at.log_seq)
        now = _folded(at if at.commits else None, newer)
        if now is not None and any(message.header(b"Pyoco-Commit") == commit_id for message in newer):
            return now
        if now is not None and now.log_seq == at.log_seq:
            # Another sequence, and nothing newer: what we stand on is not in the log any more.
            now = await self.load(run_id, at_leader=True)
        raise Overtaken(now)

    def _reads(
        self, run_id: str, at_leader: bool
    ) -> tuple[Coroutine[Any, Any, Entry], Coroutine[Any, Any, StoredMessage | None]]:
        subject = self._subject(run_id)
        if at_leader:
            return self._bucket.get_at_leader(run_id), self._jetstream.last_at_leader(self._stream, subject)
        return self._bucket.get(run_id), self._jetstream.last(self._stream, subject)

    async def _forwarded(
        self, run_id: str, base: StoredRun | None, last: StoredMessage, at_leader: bool
    ) -> StoredRun | None:
        behind = _commit_no(last) - (base.commits if base else 0)
        if behind == 0:
            return base
        if behind == 1:
            return _folded(base, [last])
        read_on = self._jetstream.after_at_leader if at_leader else self._jetstream.after
        return _folded(base, await read_on(self._stream, self._subject(run_id), base.log_seq if base else 0))

    async def _is_superseded(self, stored: StoredRun, entry: Entry) -> bool:
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

    async def _beat_on_theirs(self, stored: StoredRun, at: float) -> StoredRun:
        """A newer snapshot stays as it is but for the heartbeat, and only while our claim stands in it.

        The revision we know is then kept as it is, so that the next beat does not write ours over it.
        """
        entry = await self._bucket.get_at_leader(stored.run.run_id)
        theirs = decode_snapshot(entry.value) if entry.value else None
        if theirs is None or theirs.pyoco.log_seq > stored.log_seq:
            if theirs is not None and theirs.pyoco.claim == stored.run.claim:
                with contextlib.suppress(WrongSequence):
                    await self._beat(theirs, at, entry.revision)
            return stored
        return replace(stored, revision=entry.revision)

    def _heal_soon(self, stored: StoredRun) -> None:
        healing = asyncio.get_running_loop().create_task(self._heal(stored))
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

    def _subject(self, run_id: str) -> str:
        return f"{self._prefix}.{run_id}"


def _unheard(done: asyncio.Future[PubAck]) -> None:
    """Nobody is interested any more; asyncio would complain about an error that nobody has looked at."""
    if not done.cancelled():
        done.exception()


def _nowhere(run: Run) -> StoredRun:
    return StoredRun(run=run, commits=0, log_seq=0, revision=0)


def _base(snapshot: RunSnapshot, last: StoredMessage, *, whole: bool) -> StoredRun | None:
    """The snapshot as something to fold on, if it stands where the log says.

    One without a sequence was written beside the first commit, which may have lost against another one.
    One ahead of the log is of an end that the broker has lost, or was read beside a lagging replica.
    """
    core = snapshot.pyoco
    if whole and (snapshot.task_records_truncated or snapshot.tasks_truncated):
        return None
    number = _commit_no(last)
    is_there = core.commits == number and core.log_seq == last.seq
    is_before = core.commits < number and 0 < core.log_seq < last.seq
    if not (is_there or is_before):
        return None
    return StoredRun(
        run=run_of(snapshot),
        commits=core.commits,
        log_seq=core.log_seq,
        revision=0,
        heartbeat_at=snapshot.heartbeat_at,
    )


def _is_left_behind(
    snapshot: RunSnapshot | None, stored: StoredRun, last: StoredMessage, at_leader: bool
) -> bool:
    if snapshot is None:
        return not stored.run.gone
    behind = stored.commits - snapshot.pyoco.commits
    if behind == 0:
        return snapshot.pyoco.log_seq != stored.log_seq and run_of(snapshot) != stored.run
    if behind < 0:
        return at_leader  # else it may be the log that we were shown an old one of
    return _age_sec(last) >= HEAL_AFTER_SEC


def _folded(stored: StoredRun | None, messages: Sequence[StoredMessage]) -> StoredRun | None:
    """Fold messages over what is known, leaving out those already in it."""
    run = stored.run if stored else None
    commits, seq, revision = (stored.commits, stored.log_seq, stored.revision) if stored else (0, 0, 0)
    for message in messages:
        number = _commit_no(message) or commits + 1  # not ours, but there
        if number <= commits:
            continue
        run, commits, seq = fold(run, decode_commit(message.data)), number, message.seq
    if run is None:
        return None
    heartbeat_at = stored.heartbeat_at if stored else 0.0
    return StoredRun(run=run, commits=commits, log_seq=seq, revision=revision, heartbeat_at=heartbeat_at)


def _commit_headers(at: StoredRun, events: Sequence[Event], commit_id: str) -> bytes:
    erasing = any(isinstance(event, RunErased) for event in events)
    rollup = f"Nats-Rollup: sub\r\nNats-TTL: {ERASED_MARK_TTL}\r\n" if erasing else ""
    return (
        f"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: {at.log_seq}\r\n"
        f"Pyoco-Commit: {commit_id}\r\nPyoco-Commit-No: {at.commits + 1}\r\n{rollup}\r\n"
    ).encode()


def _commit_no(message: StoredMessage) -> int:
    return number_of(message.headers, b"Pyoco-Commit-No")


def _age_sec(message: StoredMessage) -> float:
    stamp = message.header(b"Nats-Time-Stamp")
    if stamp is None:
        return HEAL_AFTER_SEC
    # Nanoseconds are more than fromisoformat takes.
    return time.time() - datetime.fromisoformat(stamp[:26].rstrip("Z") + "+00:00").timestamp()
