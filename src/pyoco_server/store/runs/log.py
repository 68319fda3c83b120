"""Stored runs: append to the event log, which is the source of truth, and read a run from it.

A commit is appended at the sequence on which it was decided. The process that committed then writes the
snapshot (`snapshots`). Readers fold the commits that the snapshot lacks. `operations.runs.apply` decides;
this module does not.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine, Sequence

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
from pyoco_server.names import is_run_id
from pyoco_server.store.runs.codec import Commit, commit_no, decode_commit, decode_snapshot
from pyoco_server.store.runs.history import EventLogReader
from pyoco_server.store.runs.sent_commits import SendMark, SentCommits
from pyoco_server.store.runs.snapshots import SnapshotStore, may_be_missing
from pyoco_server.store.runs.stored_run import (
    NewCommit,
    StoredRun,
    base_of,
    commit_on,
    folded,
    is_continued,
    is_left_behind,
    uncommitted,
)

__all__ = ["Commit", "Overtaken", "Runs", "StoredRun", "new_commit_id"]

APPEND_TRIES_MAX = 3
CACHED_RUNS_MAX = 32
CACHED_RUN_BYTES_MAX = 4 * 1024 * 1024
# Far less than the lifetime of the mark of an erased run: no entry outlives its run.
CACHED_SEC_MAX = 3600.0


class Overtaken(Exception):
    """Another process committed first. `now` is the run with those commits."""

    def __init__(self, now: StoredRun | None) -> None:
        super().__init__("the run has moved on")
        self.now = now


def new_commit_id() -> str:
    return new_token()


class Runs(EventLogReader):
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        super().__init__(jetstream, config)
        self.snapshots = SnapshotStore(jetstream, config, self.ids, self.load)
        self._snapshot_bytes_max = config.max_run_snapshot_bytes
        self._whole = _WholeRunCache()
        self.sent_commits = SentCommits()

    async def create(
        self,
        submission: RunSubmitted,
        commit_id: str,
        more: Sequence[Event] = (),
        meta: CommitMeta | None = None,
    ) -> StoredRun:
        """Send the first commit and the first snapshot together. This is safe only for the first ones."""
        events = (submission, *more)
        run = fold(None, events)
        assert run is not None
        born = uncommitted(run)
        commit = commit_on(born, run, events, commit_id, meta)
        mark = self.sent_commits.send()
        sent = self._send(commit)
        snapshot = self.snapshots.put_soon(replace(born, commits=1))
        appended = await self._commit(sent, commit, mark)
        try:
            return replace(appended, revision=(await snapshot).seq)
        except WrongSequence:
            # A reader or a writer whose commit was refused wrote it first, or it is left from an erased run.
            return await self.snapshots.project(appended)
        except BrokerRefused as refused:
            if not may_be_missing(refused):
                raise
            return await self.snapshots.project(appended)

    async def append(
        self,
        at: StoredRun | None,
        events: Sequence[Event],
        commit_id: str,
        *,
        leads_to: Run | None = None,
        meta: CommitMeta | None = None,
    ) -> StoredRun:
        """Commit events decided on `at`. Raises Overtaken. If the answer is lost, the log is read.

        `leads_to`: the run after these events, if the caller has folded them already.
        """
        run = leads_to or fold(at.run if at else None, events)
        assert run is not None, "events that leave no run were decided on no run"
        commit = commit_on(at or uncommitted(run), run, events, commit_id, meta)
        mark = self.sent_commits.send()
        return await self._commit(self._send(commit), commit, mark)

    async def load(self, run_id: str, *, at_leader: bool = False, whole: bool = False) -> StoredRun | None:
        """The run as the log has it. `whole`: with all tasks, also those that a snapshot leaves out.

        `at_leader`: the result has every commit made before this call, unless the node that answers was cut
        off from the others. None is confirmed by a majority. A refusal needs `load_confirmed` or `is_latest`.
        """
        if not is_run_id(run_id):
            return None  # a wildcard in the subject would find other runs
        entry, last = await asyncio.gather(*self._reads(run_id, at_leader))
        if last is None and at_leader and not await self.is_latest(run_id, None):
            entry, last = await asyncio.gather(*self._reads(run_id, at_leader))
            if last is None:  # the node that answered lacks a commit of the majority
                raise AnswerLost(self._subject(run_id))
        if last is None:
            return None
        snapshot = decode_snapshot(entry.value) if entry.value else None
        max_bytes = self._snapshot_bytes_max
        base = base_of(snapshot, last, whole=whole, max_bytes=max_bytes) if snapshot else None
        from_log = whole and base is None
        if from_log:
            base = self._whole.before(run_id, last)
        forwarded = await self._fold_newer(run_id, base, last, at_leader)
        if forwarded is None:
            # A commit without a number is of another producer: only that one was read, and it has no run.
            if at_leader and commit_no(last) and not await self.is_latest(run_id, None):
                raise AnswerLost(self._subject(run_id))  # two nodes answered, and one of them was behind
            return None
        stored = replace(forwarded, revision=entry.revision)
        if from_log:
            self._whole.keep(stored)
        behind = is_left_behind(snapshot, stored, last, at_leader=at_leader, max_bytes=max_bytes)
        if behind and not whole:
            self.snapshots.heal_soon(stored)
        return stored

    async def load_confirmed(self, run_id: str, *, whole: bool = False) -> StoredRun | None:
        """The run as a majority has it at some moment of this call. A request may be refused on it."""
        for _ in range(CONFIRM_TRIES_MAX):
            stored = await self.load(run_id, at_leader=True, whole=whole)
            if stored is None or await self.is_latest(run_id, stored):
                return stored
        raise Unavailable(f"Run {run_id} changes too fast to be read. Try again.")

    async def is_latest(self, run_id: str, stored: StoredRun | None) -> bool:
        """Whether a majority has no commit after `stored` (None: there is no run).

        The mark of an erased run proves it: while the mark exists, no run can begin with that id.
        """
        subject, seq = self._subject(run_id), stored.log_seq if stored else 0
        if await confirm(self._jetstream, self._stream, self._subject(MARK), subject, seq):
            return True
        return stored is None and await self._has_last(run_id, RunErased)

    async def last_message(self, *, at_leader: bool) -> StoredMessage | None:
        """The last message of the log; None if there is none, or if it was removed."""
        read = self._jetstream.end_at_leader if at_leader else self._jetstream.end
        return await read(self._stream)

    async def was_discarded(self, run_id: str) -> bool:
        """Whether its submission was discarded. Then no worker has executed the run."""
        return await self._has_last(run_id, RunDiscarded)

    def _send(self, commit: NewCommit) -> Awaitable[PubAck]:
        return self._jetstream.publish_soon(self._subject(commit.run.run_id), commit.data, commit.headers)

    async def _commit(self, sent: Awaitable[PubAck], commit: NewCommit, mark: SendMark) -> StoredRun:
        at = commit.at
        for tries_left in reversed(range(APPEND_TRIES_MAX)):
            try:
                log_seq = (await sent).seq
                self.sent_commits.store(mark, log_seq)
                return StoredRun(
                    run=commit.run,
                    commits=at.commits + 1,
                    log_seq=log_seq,
                    revision=at.revision,
                    chain=commit.chain,
                )
            except WrongSequence:
                if (found := await self._find_own_commit(at, commit.commit_id)) is not None:
                    return found
                if not tries_left:
                    raise AnswerLost(self._subject(commit.run.run_id)) from None
            except AnswerLost:
                if not tries_left:
                    raise
            # The commit may be in the log or not. Sending it again at the same sequence is safe: if the
            # first one arrived, the second is refused, and `_find_own_commit` finds the first.
            sent = self._send(commit)
        raise AssertionError("unreachable")

    async def _find_own_commit(self, at: StoredRun, commit_id: str) -> StoredRun | None:
        """The run with this commit; None if the leader has neither this commit nor a newer one.

        There may be commits of others after it, and before it if an earlier try was decided again.
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
        # Another sequence, and no newer commit: the log has lost the commit of `at`, or a commit became
        # visible between the refusal and this read. That may be our own commit.
        now = await self.load(run_id, at_leader=True, whole=True)
        if now is not None and now.log_seq > at.log_seq:
            return None
        raise Overtaken(now)

    async def _has_last(self, run_id: str, kind: type[Event]) -> bool:
        """Whether the last commit has an event of this kind."""
        last = await self._jetstream.last_at_leader(self._stream, self._subject(run_id))
        events = decode_commit(last.data) if last is not None else []
        return any(isinstance(event, kind) for event in events)

    def _reads(
        self, run_id: str, at_leader: bool
    ) -> tuple[Coroutine[object, object, KvEntry], Coroutine[object, object, StoredMessage | None]]:
        subject = self._subject(run_id)
        if at_leader:
            return self.snapshots.bucket.get_at_leader(run_id), self._jetstream.last_at_leader(
                self._stream, subject
            )
        return self.snapshots.bucket.get(run_id), self._jetstream.last(self._stream, subject)

    async def _fold_newer(
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
            # The base has a commit that the broker has lost.
            return folded(None, await read_on(self._stream, self._subject(run_id), 0))
        return folded(base, newer)


class _WholeRunCache:
    """The last few runs that were read whole because their snapshots leave something out.

    A client that drives a large graph needs the whole run for every command. Without this cache each command
    would read the log from its beginning. A cached run is only a base to fold newer commits on.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[StoredRun, float]] = OrderedDict()

    def before(self, run_id: str, last: StoredMessage) -> StoredRun | None:
        """The cached run at `last` or before it."""
        stored, kept_at = self._kept.get(run_id, (None, 0.0))
        if stored is None or time.monotonic() - kept_at > CACHED_SEC_MAX:
            return None
        number = commit_no(last)
        is_there = stored.commits == number and stored.log_seq == last.seq
        is_before = stored.commits < number and stored.log_seq < last.seq
        return stored if is_there or is_before else None

    def keep(self, stored: StoredRun) -> None:
        run_id = stored.run.run_id
        self._kept.pop(run_id, None)
        if stored.run.is_terminal or stored.run.bytes_full > CACHED_RUN_BYTES_MAX:
            return
        self._kept[run_id] = (stored, time.monotonic())
        if len(self._kept) > CACHED_RUNS_MAX:
            self._kept.popitem(last=False)
