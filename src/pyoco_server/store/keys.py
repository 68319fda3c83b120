"""The bucket of API keys: one record per key, changed only by compare-and-set. Contains no secret."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from pyoco_server.api_keys import ApiKeyError, ApiKeyRecord, is_key_id
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket

log = logging.getLogger(__name__)

# As upstream names them. The bucket may hold other things as well.
PREFIX = "api_keys."
WRITE_TRIES_MAX = 10


class StoredKey(NamedTuple):
    record: ApiKeyRecord
    revision: int


class Keys:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.auth_kv_bucket)

    async def create(self, record: ApiKeyRecord) -> None:
        try:
            await self._bucket.put(PREFIX + record.key_id, record.to_json_bytes(), revision=0)
        except WrongSequence:
            raise Conflict(f"There is an API key {record.key_id} already.") from None

    async def get(self, key_id: str) -> StoredKey | None:
        """Confirmed by a majority, because the record is about to be changed."""
        if not is_key_id(key_id):
            return None
        entry = await self._bucket.get_confirmed(PREFIX + key_id)
        record = record_in(key_id, entry.value)
        return StoredKey(record, entry.revision) if record else None

    async def replace(self, record: ApiKeyRecord, *, revision: int) -> None:
        """Raises WrongSequence if another process has changed it since."""
        await self._bucket.put(PREFIX + record.key_id, record.to_json_bytes(), revision=revision)

    async def change(
        self, key_id: str, change: Callable[[ApiKeyRecord], ApiKeyRecord]
    ) -> ApiKeyRecord | None:
        """The record after the change; None when there is no such key."""
        for _ in range(WRITE_TRIES_MAX):
            stored = await self.get(key_id)
            if stored is None:
                return None
            changed = change(stored.record)
            try:
                await self.replace(changed, revision=stored.revision)
                return changed
            except WrongSequence:
                continue
        raise Unavailable(f"The API key {key_id} changes too fast to be changed. Try again.")

    async def list(self) -> list[ApiKeyRecord]:
        """All of them, the latest first."""
        messages = await self._bucket.after(f"{PREFIX}>")
        found = (record_in(self._bucket.key_of(one).removeprefix(PREFIX), one.data) for one in messages)
        records = [record for record in found if record is not None]
        return sorted(records, key=lambda record: record.created_at, reverse=True)


def record_in(key_id: str, value: bytes | None) -> ApiKeyRecord | None:
    """The record of this key; None for the mark of a deleted key, and for an unusable record."""
    if not value:
        return None
    try:
        record = ApiKeyRecord.from_json_bytes(value)
        record.hashed_secrets()
    except ApiKeyError as error:
        log.warning("an API key cannot be read", extra={"api_key_id": key_id, "code": error.code})
        return None
    return record if record.key_id == key_id else None
