"""The bucket of batches: a small record of each, changed only by compare-and-set. Its runs name it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.lifecycle.run import CancelAsked
from pyoco_server.names import is_run_id


class RunBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`submitted_at`: when its request was processed to the end. None meanwhile, and after an interruption.

    `accepted` and `refused`: how many of its items, known then. `without_run`: a bit for each item, set if it
    has no run, because it was refused or the batch was cancelled before. `is_repeated`: its request was sent
    again, so `submitted_at` does not mean that no request is submitting.
    """

    batch_id: str
    created_at: float
    total: int
    tenant_id: str | None = None
    api_key_id: str | None = None
    submitted_at: float | None = None
    accepted: int = 0
    refused: int = 0
    without_run: bytes = b""
    is_repeated: bool = False
    cancel: CancelAsked | None = None

    def has_run(self, position: int) -> bool:
        """Of an item, when its request was processed to the end."""
        byte, bit = divmod(position, 8)
        return byte >= len(self.without_run) or not self.without_run[byte] >> bit & 1


class StoredBatch(NamedTuple):
    batch: RunBatch
    revision: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunBatch).decode


class Batches:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.batches_kv_bucket)

    async def get(self, batch_id: str) -> StoredBatch | None:
        """Confirmed by a majority, because decisions are based on it."""
        if not is_run_id(batch_id):
            return None  # it could not be a key
        entry = await self._bucket.get_confirmed(batch_id)
        return StoredBatch(_decode(entry.value), entry.revision) if entry.value else None

    async def put(self, batch: RunBatch, *, revision: int) -> StoredBatch:
        """Raises WrongSequence if it has changed since; with revision 0: if it exists."""
        return StoredBatch(batch, await self._bucket.put(batch.batch_id, _encode(batch), revision=revision))

    async def all(self) -> list[RunBatch]:
        """The latest first."""
        messages = await self._bucket.after("*")
        # A batch that was written during the read is there twice; the later one counts.
        found = {batch.batch_id: batch for batch in (_decode(one.data) for one in messages if one.data)}
        return sorted(found.values(), key=lambda one: (one.created_at, one.batch_id), reverse=True)
