"""Bytes in the log, in the bucket and on the queue, and the values they stand for.

A commit is `{"v": 1, "events": […]}`, and who asked for it where that is known. What a newer version wrote
is read as far as it is understood: an event of an unknown type, or with members of the wrong type, becomes
`UnknownEvent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pyoco_server.lifecycle.commit_meta import Actor, CommitMeta
from pyoco_server.lifecycle.events import Event, RunSubmitted, UnknownEvent
from pyoco_server.lifecycle.snapshot import RunSnapshot

SCHEMA_VERSION = 1
# What a decoder raises for any bytes: no JSON, no UTF-8 in a string, nested too deeply.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


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


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message on the queue, appendix E. What follows `submitted_at` is ours and optional."""

    run_id: str
    flow_name: str
    tag: str
    submitted_at: float
    params: dict[str, Any] = {}
    tags: list[str] | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    retry_of: str | None = None
    retry_from: str | None = None
    schedule_id: str | None = None


class UnreadableJob(ValueError):
    """What came from the queue is no job."""


_encode = msgspec.json.Encoder().encode
_decode_commit = msgspec.json.Decoder(_Commit).decode
_decode_meta = msgspec.json.Decoder(CommitMeta).decode
_decode_loosely = msgspec.json.Decoder(_LooseCommit).decode
_decode_event: Any = msgspec.json.Decoder(Event).decode
_decode_loose_event = msgspec.json.Decoder(_LooseEvent).decode
_decode_snapshot = msgspec.json.Decoder(RunSnapshot).decode
_decode_job = msgspec.json.Decoder(Job).decode

_NO_META = CommitMeta()


def encode_commit(events: Sequence[Event], meta: CommitMeta | None = None) -> bytes:
    if meta is None:
        return _encode(_Commit(list(events)))
    said = {name: value for name, value in msgspec.structs.asdict(meta).items() if value is not None}
    return _encode(_Commit(list(events), **said))


def decode_commit(data: bytes) -> list[Event]:
    try:
        return _decode_commit(data).events
    except UNREADABLE:
        return _understood(data)


def decode_commit_meta(data: bytes) -> CommitMeta | None:
    """Who asked for a commit; None where it is missing or not understood."""
    try:
        meta = _decode_meta(data)
    except UNREADABLE:
        return None
    return None if meta == _NO_META else meta


def encode_snapshot(snapshot: RunSnapshot) -> bytes:
    return _encode(snapshot)


def decode_snapshot(data: bytes) -> RunSnapshot | None:
    """None for what we cannot have written: it is rebuilt from the log."""
    try:
        return _decode_snapshot(data)
    except UNREADABLE:
        return None


def encode_job(submission: RunSubmitted, tags: Sequence[str]) -> bytes:
    return _encode(
        Job(
            run_id=submission.run_id,
            flow_name=submission.flow_name,
            tag=submission.tag,
            submitted_at=submission.at,
            params=submission.params,
            tags=list(tags),
            tenant_id=submission.tenant_id,
            api_key_id=submission.api_key_id,
            workflow_yaml=submission.workflow_yaml,
            workflow_yaml_sha256=submission.workflow_yaml_sha256,
            workflow_yaml_bytes=submission.workflow_yaml_bytes,
            correlation_id=submission.correlation_id,
            traceparent=submission.traceparent,
            retry_of=submission.retry_of,
            retry_from=submission.retry_from,
            schedule_id=submission.schedule_id,
        )
    )


def decode_job(data: bytes) -> Job:
    try:
        return _decode_job(data)
    except UNREADABLE as error:
        raise UnreadableJob(str(error)) from error


def submission_of(job: Job) -> RunSubmitted:
    """The event that `encode_job` was given, but for tags edited since."""
    return RunSubmitted(
        at=job.submitted_at,
        run_id=job.run_id,
        flow_name=job.flow_name,
        params=job.params,
        tag=job.tag,
        tags=[job.tag] if job.tags is None else job.tags,
        tenant_id=job.tenant_id,
        api_key_id=job.api_key_id,
        workflow_yaml=job.workflow_yaml,
        workflow_yaml_sha256=job.workflow_yaml_sha256,
        workflow_yaml_bytes=job.workflow_yaml_bytes,
        correlation_id=job.correlation_id,
        traceparent=job.traceparent,
        retry_of=job.retry_of,
        retry_from=job.retry_from,
        schedule_id=job.schedule_id,
    )


def _understood(data: bytes) -> list[Event]:
    try:
        raw_events = _decode_loosely(data).events
    except UNREADABLE:
        return [UnknownEvent(at=0.0, name="unreadable commit")]
    return [_event(bytes(raw)) for raw in raw_events]


def _event(raw: bytes) -> Event:
    try:
        event: Event = _decode_event(raw)
        return event
    except UNREADABLE:
        return _unknown(raw)


def _unknown(raw: bytes) -> UnknownEvent:
    try:
        loose = _decode_loose_event(raw)
    except UNREADABLE:
        loose = _LooseEvent()
    return UnknownEvent(at=loose.at, name=loose.type)
