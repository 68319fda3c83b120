"""A run and its position in the log: from a snapshot, with newer commits folded, and with a new commit.

Pure: reads and sends nothing. See `log.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pyoco_server import clock
from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Lack, Run
from pyoco_server.lifecycle.snapshot import RunSnapshot, lack_for, run_of
from pyoco_server.store.runs.codec import (
    NO_CHAIN,
    chain_after,
    chain_of,
    commit_headers,
    commit_no,
    decode_commit,
    encode_commit,
)

# After a recent commit, the process that committed is most likely still writing the snapshot.
HEAL_AFTER_SEC = 2.0


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with the number of its commits, the sequence of the last one, and the revision of its snapshot.

    `chain` is that of the last commit, empty if it has none; None: it has not been read.
    """

    run: Run
    commits: int
    log_seq: int
    revision: int
    heartbeat_at: float = 0.0
    chain: str | None = None


class NewCommit(NamedTuple):
    """A commit to be sent, or sent again: the same bytes at the same position."""

    at: StoredRun
    run: Run
    data: bytes
    headers: bytes
    commit_id: str
    chain: str


def uncommitted(run: Run) -> StoredRun:
    return StoredRun(run=run, commits=0, log_seq=0, revision=0, chain=NO_CHAIN)


def commit_on(
    at: StoredRun, run: Run, events: Sequence[Event], commit_id: str, meta: CommitMeta | None
) -> NewCommit:
    data = encode_commit(events, meta)
    chain = chain_after(at.chain, data)
    headers = commit_headers(at.log_seq, at.commits + 1, events, commit_id, chain)
    return NewCommit(at, run, data, headers, commit_id, chain)


def base_of(snapshot: RunSnapshot, last: StoredMessage, *, whole: bool, max_bytes: int) -> StoredRun | None:
    """The snapshot as a base to fold newer commits on, if its position fits the log.

    A snapshot without a sequence was written beside the first commit, which may have been refused. One ahead
    of the log shows commits that the broker has lost, or the log was read from a replica that lags.
    """
    core = snapshot.pyoco
    if not is_measured(snapshot, max_bytes) or (whole and core.lacks > Lack.NOTHING):
        return None
    number = commit_no(last)
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
        chain=chain_of(last) if is_there else None,
    )


def folded(stored: StoredRun | None, messages: Sequence[StoredMessage]) -> StoredRun | None:
    """Fold messages over what is known, leaving out those already in it."""
    run = stored.run if stored else None
    commits, seq, revision = (stored.commits, stored.log_seq, stored.revision) if stored else (0, 0, 0)
    chain = stored.chain if stored else NO_CHAIN
    for message in messages:
        number = commit_no(message) or commits + 1  # not ours, but there
        if number <= commits:
            continue
        run, commits, seq = fold(run, decode_commit(message.data)), number, message.seq
        chain = chain_of(message)
    if run is None:
        return None
    heartbeat_at = stored.heartbeat_at if stored else 0.0
    return StoredRun(
        run=run, commits=commits, log_seq=seq, revision=revision, heartbeat_at=heartbeat_at, chain=chain
    )


def is_continued(base: StoredRun, messages: Sequence[StoredMessage]) -> bool:
    """Whether these messages after `base` in the log, perhaps only the last ones, were committed on it.

    A broker that has lost the end of its log gives the same numbers to other commits. A commit says at which
    sequence it was decided: that of the one right after `base` must be the place of `base`.
    """
    for message in messages:
        number = commit_no(message)
        if number == base.commits + 1:
            decided_at = message.header(b"Nats-Expected-Last-Subject-Sequence")
            return decided_at in (None, str(base.log_seq))
        if number > base.commits or number == 1:
            return True  # begun again after it was erased, or the one after `base` is not among these
        if number:
            return False
    return True


def is_measured(snapshot: RunSnapshot, max_bytes: int) -> bool:
    """False if another version measured it, or it was made with a lower limit."""
    core = snapshot.pyoco
    if core.lacks is Lack.NOTHING:
        return core.sizes is not None
    return core.sizes is not None and core.lacks <= lack_for(run_of(snapshot), max_bytes)


def is_left_behind(
    snapshot: RunSnapshot | None, stored: StoredRun, last: StoredMessage, *, at_leader: bool, max_bytes: int
) -> bool:
    if snapshot is None:
        return not stored.run.gone
    if not is_measured(snapshot, max_bytes):
        return _age_sec(last) >= HEAL_AFTER_SEC  # its writer may still be at work
    behind = stored.commits - snapshot.pyoco.commits
    if behind == 0:
        return snapshot.pyoco.log_seq != stored.log_seq and run_of(snapshot) != stored.run
    if behind < 0:
        return at_leader  # else it may be the log that we were shown an old one of
    return _age_sec(last) >= HEAL_AFTER_SEC


def _age_sec(message: StoredMessage) -> float:
    at = message.stored_at
    return HEAL_AFTER_SEC if at is None else clock.now() - at
