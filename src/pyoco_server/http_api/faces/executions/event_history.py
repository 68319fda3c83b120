"""All events of one execution: numbered from 1, with ids, and chained by hashes.

Extended commit by commit. The id of an event follows from its commit and its place in it, so that all
gateways give the same id. The hash of an event is the SHA-256 of the previous hash, as hex, followed by the
canonical JSON (`pyoco-cj1`) of the envelope without its hash; the first has no previous hash.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, canonical_bytes
from pyoco_server.http_api.faces.executions import wire
from pyoco_server.http_api.faces.executions.event_mapping import EventMapping, MappedEvent
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.identity.callers import principal_of
from pyoco_server.store.runs.codec import Commit

SCHEMA_VERSION = 1
_EVENT_IDS = uuid.UUID("6f0f6bd2-6a54-5a39-8f0e-0d3b1a8f4c11")


class EventHistory:
    def __init__(self) -> None:
        self._mapping = EventMapping()
        self.events: list[bytes] = []  # envelopes, as they are sent
        self.head = ""
        self.size_bytes = 0
        # As of the last event. Set after the events, so that a run that is over has all of its events.
        self.run: Run | None = None

    def add(self, commit: Commit) -> None:
        place = 0
        for event in commit.events:
            for listed in self._mapping.add(event):
                self._append(commit, event, place, listed)
                place += 1
        self.run = self._mapping.run

    def _append(self, commit: Commit, event: e.Event, place: int, listed: MappedEvent) -> None:
        run = self._mapping.run
        assert run is not None, "a run exists before its events"
        envelope: JsonObject = {
            "eventId": event_id(commit.commit_id, place),
            "executionId": run.run_id,
            "seq": len(self.events) + 1,
            "type": listed.type,
            "occurredAt": wire.instant(listed.at),
            "actor": _actor(commit, event),
        }
        meta = commit.meta
        envelope |= _if_set("correlationId", (meta and meta.correlation_id) or run.correlation_id)
        envelope |= _if_set("causationId", meta and meta.causation_id)
        envelope |= {"schemaVersion": SCHEMA_VERSION, "payload": listed.payload}
        self.head = chained(self.head, envelope)
        encoded = msgspec.json.encode(envelope | {"hash": self.head})
        self.events.append(encoded)
        self.size_bytes += len(encoded)


def event_ids(before: Run | None, events: Sequence[e.Event], commit_id: str) -> list[str]:
    """The ids of the events that one commit adds."""
    mapping = EventMapping(before)
    count = sum(len(mapping.add(event)) for event in events)
    return [event_id(commit_id, place) for place in range(count)]


def event_id(commit_id: str, place: int) -> str:
    return str(uuid.uuid5(_EVENT_IDS, f"{commit_id}.{place}"))


def chained(before: str, envelope: JsonObject) -> str:
    """A value without a canonical form (a worker's result may be anything) is encoded with sorted names."""
    plain = msgspec.to_builtins(envelope)
    try:
        canonical = canonical_bytes(plain)
    except CanonicalJsonError:
        canonical = msgspec.json.encode(plain, order="sorted")
    return hashlib.sha256(before.encode() + canonical).hexdigest()


def _actor(commit: Commit, event: e.Event) -> JsonObject:
    """The actor of the commit, or else the one that the event itself names."""
    if commit.meta is not None and commit.meta.actor is not None:
        return {"kind": commit.meta.actor.kind} | _if_set("id", commit.meta.actor.id)
    match event:
        case e.RunSubmitted() if event.schedule_id is not None:
            return {"kind": "scheduler", "id": event.schedule_id}
        case e.RunSubmitted():
            return {"kind": "user"} | _if_set("id", principal_of(event.api_key_id))
        case e.CancelRequested() | e.TaskResumed():
            return {"kind": "user"} | _if_set("id", event.by)
        case _:
            return {"kind": "system"}


def _if_set(name: str, value: object) -> JsonObject:
    return {name: value} if value else {}
