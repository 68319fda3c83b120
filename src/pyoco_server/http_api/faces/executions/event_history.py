"""Everything that is listed of one execution: numbered from 1, with its id, and chained by hashes.

Grows commit by commit and forgets nothing. An event's id follows from its commit and its place in it, so
that every gateway gives the same. The hash of an event is the SHA-256 of the hash before it, as hex, followed
by the canonical JSON (`pyoco-cj1`) of the envelope without its hash; before the first there is nothing.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, canonical_bytes
from pyoco_server.http_api.faces.executions import wire
from pyoco_server.http_api.faces.executions.event_mapping import EventMapping, MappedEvent
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.identity.callers import principal_of
from pyoco_server.store.runs.commits import Commit

SCHEMA_VERSION = 1
_EVENT_IDS = uuid.UUID("6f0f6bd2-6a54-5a39-8f0e-0d3b1a8f4c11")


class EventHistory:
    def __init__(self) -> None:
        self._listing = EventMapping()
        self.events: list[bytes] = []  # envelopes, as they are sent
        self.head = ""
        self.size_bytes = 0
        # As of the last event: set after them, so that a run that is over has all of its events.
        self.run: Run | None = None

    def add(self, commit: Commit) -> None:
        place = 0
        for event in commit.events:
            for listed in self._listing.add(event):
                self._append(commit, event, place, listed)
                place += 1
        self.run = self._listing.run

    def _append(self, commit: Commit, event: e.Event, place: int, listed: MappedEvent) -> None:
        run = self._listing.run
        assert run is not None, "nothing is listed before there is a run"
        envelope: dict[str, Any] = {
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
    """Of all that one commit adds to the list."""
    listing = EventMapping(before)
    count = sum(len(listing.add(event)) for event in events)
    return [event_id(commit_id, place) for place in range(count)]


def event_id(commit_id: str, place: int) -> str:
    return str(uuid.uuid5(_EVENT_IDS, f"{commit_id}.{place}"))


def chained(before: str, envelope: dict[str, Any]) -> str:
    """What has no canonical form (a worker's result may be anything) is taken as it is shown, sorted."""
    plain = msgspec.to_builtins(envelope)
    try:
        canonical = canonical_bytes(plain)
    except CanonicalJsonError:
        canonical = msgspec.json.encode(plain, order="sorted")
    return hashlib.sha256(before.encode() + canonical).hexdigest()


def _actor(commit: Commit, event: e.Event) -> dict[str, Any]:
    """Who is behind it: as the commit says, else as far as the event itself shows."""
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


def _if_set(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}
