"""The worker registry of appendix F: who works here, doing what, and whether it is shown."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.store.errors import WrongSequence
from pyoco_server.store.jetstream import JetStream
from pyoco_server.store.keyvalue import Bucket

# Of so many who write one entry at once, each gets its turn.
WRITE_TRIES_MAX = 20


class Registry:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.workers_kv_bucket)

    async def get(self, worker_id: str) -> dict[str, Any] | None:
        entry = await self._bucket.get(worker_id)
        return _record(entry.value)

    async def merge(self, worker_id: str, changes: dict[str, Any]) -> None:
        """Change these members and keep the others: `hidden` is the operator's, the rest the worker's."""
        for _ in range(WRITE_TRIES_MAX):
            entry = await self._bucket.get_at_leader(worker_id)
            record = {"worker_id": worker_id, "hidden": False} | (_record(entry.value) or {}) | changes
            try:
                await self._bucket.put(worker_id, msgspec.json.encode(record), revision=entry.revision)
                return
            except WrongSequence:
                continue
        raise Unavailable(f"The entry of worker {worker_id} changes too fast to be changed. Try again.")


def _record(value: bytes | None) -> dict[str, Any] | None:
    if not value:
        return None
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
