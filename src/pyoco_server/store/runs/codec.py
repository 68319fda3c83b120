"""Commits and snapshots as bytes: messages of the log with their headers, and values of the bucket.

A commit is `{"v": 1, "events": […]}`, with its `CommitMeta` if there is one. An event of an unknown type, or
with members of the wrong type, may be of a newer version: it is read as `UnknownEvent`.

The chain of a commit is the SHA-256, as hex, of the chain before it followed by the bytes of the commit. The
chain before the first commit is the empty string. A commit without a chain is of an older version, of another
producer, or of a process that did not have the chain before; the next commit begins a new chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

import msgspec

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.jetstream.headers import number_of
from pyoco_server.lifecycle.commit_meta import Actor, CommitMeta
from pyoco_server.lifecycle.events import Event, RunDiscarded, RunErased, UnknownEvent
from pyoco_server.lifecycle.snapshot import RunSnapshot

SCHEMA_VERSION = 1
ERASED_MARK_TTL = "48h"
NO_CHAIN = ""
# What a decoder may raise: the bytes are no JSON, a string is no UTF-8, or the nesting is too deep.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """`number`: its number among the commits of the run, 0 if its producer did not set it.

    `at`: the broker's time. `size`: of the message, in bytes. `chain`: empty if the commit has none.
    `chain_holds`: whether it follows from the commit before; None if there is no chain, or if the commit
    before was not read.
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


class _Commit(msgspec.Struct):
    events: list[Event]
    v: int = SCHEMA_VERSION
    actor: Actor | msgspec.UnsetType = msgspec.UNSET
    correlation_id: str | msgspec.UnsetType = msgspec.UNSET
    causation_id: str | msgspec.UnsetType = msgspec.UNSET


class _LooseCommit(msgspec.Struct):
    events: list[msgspec.Raw]


class _LooseEvent(msgspec.Struct):
    type: str = "?"
    at: float = 0.0


_encode = msgspec.json.Encoder().encode
_decode_commit = msgspec.json.Decoder(_Commit).decode
_decode_meta = msgspec.json.Decoder(CommitMeta).decode
_decode_loosely = msgspec.json.Decoder(_LooseCommit).decode
_decode_event: Callable[[bytes], Event] = msgspec.json.Decoder(Event).decode
_decode_loose_event = msgspec.json.Decoder(_LooseEvent).decode
_decode_snapshot = msgspec.json.Decoder(RunSnapshot).decode

_NO_META = CommitMeta()
# Compared by type: a commit may have hundreds of events, and `isinstance` takes several times as long.
_ERASING: frozenset[object] = frozenset((RunErased, RunDiscarded))


def encode_commit(events: Sequence[Event], meta: CommitMeta | None = None) -> bytes:
    if meta is None:
        return _encode(_Commit(list(events)))
    known = {name: value for name, value in msgspec.structs.asdict(meta).items() if value is not None}
    return _encode(_Commit(list(events), **known))


def decode_commit(data: bytes) -> list[Event]:
    try:
        return _decode_commit(data).events
    except UNREADABLE:
        return _read_loosely(data)


def decode_commit_meta(data: bytes) -> CommitMeta | None:
    """Who requested a commit; None if that is missing or cannot be read."""
    try:
        meta = _decode_meta(data)
    except UNREADABLE:
        return None
    return None if meta == _NO_META else meta


def encode_snapshot(snapshot: RunSnapshot) -> bytes:
    return _encode(snapshot)


def decode_snapshot(data: bytes) -> RunSnapshot | None:
    """None for bytes that are no snapshot: it is then rebuilt from the log."""
    try:
        return _decode_snapshot(data)
    except UNREADABLE:
        return None


def commits_of(messages: Iterable[StoredMessage]) -> list[Commit]:
    """The messages of one log, in its order. Only before the very first commit the chain is known."""
    found: list[Commit] = []
    before: str | None = None
    for message in messages:
        if commit_no(message) == 1:
            before = NO_CHAIN
        found.append(commit_of(message, before))
        before = found[-1].chain
    return found


def commit_of(message: StoredMessage, before: str | None = None) -> Commit:
    """`before`: the chain of the commit before; None if it is not known."""
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
    # No client got the id of a discarded run: its log is removed like that of an erased run.
    is_erasing = not _ERASING.isdisjoint(map(type, events))
    rollup = f"Nats-Rollup: sub\r\nNats-TTL: {ERASED_MARK_TTL}\r\n" if is_erasing else ""
    chained = f"Pyoco-Chain: {chain}\r\n" if chain else ""
    return (
        f"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: {log_seq}\r\n"
        f"Pyoco-Commit: {commit_id}\r\nPyoco-Commit-No: {number}\r\n{chained}{rollup}\r\n"
    ).encode()


def chain_after(before: str | None, data: bytes) -> str:
    """The chain of a commit. `before` is None if the chain before is not known: then this one has none."""
    return NO_CHAIN if before is None else sha256(before.encode() + data).hexdigest()


def chain_of(message: StoredMessage) -> str:
    return message.header(b"Pyoco-Chain") or NO_CHAIN


def commit_no(message: StoredMessage) -> int:
    return number_of(message.headers, b"Pyoco-Commit-No")


def _read_loosely(data: bytes) -> list[Event]:
    try:
        raw_events = _decode_loosely(data).events
    except UNREADABLE:
        return [UnknownEvent(at=0.0, name="unreadable commit")]
    return [_event(bytes(raw)) for raw in raw_events]


def _event(raw: bytes) -> Event:
    try:
        return _decode_event(raw)
    except UNREADABLE:
        return _unknown(raw)


def _unknown(raw: bytes) -> UnknownEvent:
    try:
        loose = _decode_loose_event(raw)
    except UNREADABLE:
        loose = _LooseEvent()
    return UnknownEvent(at=loose.at, name=loose.type)
