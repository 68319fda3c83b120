"""The history of wheels: uploads and deletions with time, actor and source. Entries expire.

One key per entry, `<milliseconds>_<id>`, as in the bucket of upstream, whose entries are read as well.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.json_value import JsonObject


class WheelAction(StrEnum):
    UPLOAD = "upload"
    DELETE = "delete"


class Origin(msgspec.Struct, frozen=True):
    """Who asked, and from where; None where it is not known."""

    tenant_id: str | None = None
    api_key_id: str | None = None
    source: Mapping[str, str | None] = {}


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """In the members and the order of the contract."""

    event_id: str
    occurred_at: float
    action: str
    wheel_name: str
    tags: list[str] = []
    size_bytes: int | None = None
    sha256_hex: str | None = None
    replace: bool | None = None
    actor: JsonObject = {}
    source: JsonObject = {}


class WheelHistory:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.wheel_history_kv_bucket)

    async def add(
        self,
        action: WheelAction,
        wheel_name: str,
        origin: Origin,
        *,
        tags: tuple[str, ...] = (),
        size: int | None = None,
        sha256: str | None = None,
        replace: bool | None = None,
    ) -> HistoryEntry:
        source_names = ("remote_addr", "x_forwarded_for", "x_real_ip", "user_agent", "host", "scheme")
        entry = HistoryEntry(
            event_id=uuid.uuid4().hex,
            occurred_at=clock.now(),
            action=action.value,
            wheel_name=wheel_name,
            tags=list(tags),
            size_bytes=size,
            sha256_hex=sha256,
            replace=replace,
            actor={"tenant_id": origin.tenant_id, "api_key_id": origin.api_key_id},
            source={name: origin.source.get(name) for name in source_names},
        )
        key = f"{int(entry.occurred_at * 1000):013d}_{entry.event_id}"
        await self._bucket.put(key, msgspec.json.encode(entry), revision=0)
        return entry

    async def list(
        self,
        *,
        limit: int = 100,
        wheel_name: str | None = None,
        action: WheelAction | None = None,
        tenant_id: str | None = None,
    ) -> list[HistoryEntry]:
        """The latest first. Reads all entries: uploads are rare, and old entries expire."""
        entries = (_entry(message.data) for message in reversed(await self._bucket.after(">")))
        found = [
            entry
            for entry in entries
            if entry is not None
            and wheel_name in (None, entry.wheel_name)
            and action in (None, entry.action)
            and tenant_id in (None, entry.actor.get("tenant_id"))
        ]
        found.sort(key=lambda entry: entry.occurred_at, reverse=True)
        return found[:limit]


def _entry(data: bytes) -> HistoryEntry | None:
    """None for the mark of a deleted key, or for a message of another producer."""
    try:
        return msgspec.json.decode(data, type=HistoryEntry)
    except msgspec.MsgspecError:
        return None
