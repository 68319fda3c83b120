"""One commit as the log has it: its headers, what it says, and the chain that ties it to the one before.

The chain of a commit is the SHA-256 of the chain before it, as hex, followed by the bytes of the commit;
that of the first is made with the empty string. A commit without one is of an older version, of another
producer, or of one that did not know the chain before it; the next commit begins a new chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.jetstream.headers import number_of
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.events import Event, RunDiscarded, RunErased
from pyoco_server.store.runs.codec import decode_commit, decode_commit_meta

ERASED_MARK_TTL = "48h"
NO_CHAIN = ""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """`number`: among the run's commits, 0 if its producer did not set it. `at`: the broker's time.

    `size`: of its message, in bytes.

    `chain` is empty where the commit has none. `chain_holds`: it follows from the commit before; None where
    it has none, or where the one before was not read.
    """

    number: int
    log_seq: int
    commit_id: str
    at: float
    events: list[Event]
    size: int = 0
    meta: CommitMeta | None = None
    chain: str = NO_CHAIN
    chain_holds: bool | None = None


def commits_of(messages: Iterable[StoredMessage]) -> list[Commit]:
    """One after the other, as they stand in the log. Only of the very first is it known what came before."""
    found: list[Commit] = []
    before: str | None = None
    for message in messages:
        if commit_no(message) == 1:
            before = NO_CHAIN
        found.append(commit_of(message, before))
        before = found[-1].chain
    return found


def commit_of(message: StoredMessage, before: str | None = None) -> Commit:
    """`before`: the chain of the commit before it."""
    chain = chain_of(message)
    unknown = not chain or before is None
    return Commit(
        number=commit_no(message),
        log_seq=message.seq,
        commit_id=message.header(b"Pyoco-Commit") or "",
        at=message.stored_at or 0.0,
        events=decode_commit(message.data),
        size=len(message.data),
        meta=decode_commit_meta(message.data),
        chain=chain,
        chain_holds=None if unknown else chain == chain_after(before, message.data),
    )


def commit_headers(
    log_seq: int, number: int, events: Sequence[Event], commit_id: str, chain: str | None
) -> bytes:
    # No client was told of a run that is discarded: its log goes like that of an erased one.
    erasing = any(isinstance(event, RunErased | RunDiscarded) for event in events)
    rollup = f"Nats-Rollup: sub\r\nNats-TTL: {ERASED_MARK_TTL}\r\n" if erasing else ""
    chained = f"Pyoco-Chain: {chain}\r\n" if chain else ""
    return (
        f"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: {log_seq}\r\n"
        f"Pyoco-Commit: {commit_id}\r\nPyoco-Commit-No: {number}\r\n{chained}{rollup}\r\n"
    ).encode()


def chain_after(before: str | None, data: bytes) -> str:
    """None: the chain before it is not known, so the commit has none either."""
    return NO_CHAIN if before is None else sha256(before.encode() + data).hexdigest()


def chain_of(message: StoredMessage) -> str:
    return message.header(b"Pyoco-Chain") or NO_CHAIN


def commit_no(message: StoredMessage) -> int:
    return number_of(message.headers, b"Pyoco-Commit-No")
