"""The bucket of idempotency records: one per key and route, changed only by compare-and-set.

The address of a record has two hashes, of the owner with the key and of the route, so that the records of a
key are found without a list of all. An answer that is too large for one message is stored in parts. All of it
expires. What a record means for a request is decided in `operations.idempotency.keyed_request`.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import AnswerLost, WrongSequence
from pyoco_server.jetstream.kv import Bucket, is_deletion

log = logging.getLogger(__name__)

PUT_TRIES_MAX = 3
PART_BYTES_MAX = 256 * 1024  # of a stored answer; in the record it takes a third more
MARK_KEPT = "1h"  # of a reservation that was taken back


class RecordState(StrEnum):
    RESERVED = "reserved"
    DONE = "done"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one request. `holder` changes with every write, so that a writer recognises its own.

    `held` is False after its holder has failed: the next request need not wait.
    """

    method: str
    path: str
    digest: str
    members: dict[str, str] = {}
    state: RecordState = RecordState.RESERVED
    holder: str
    held: bool = True
    resource_id: str
    command_id: str
    tries: int = 1
    reserved_at: float
    expires_at: float
    status: int = 0
    headers: dict[str, str] = {}
    event_ids: list[str] = []
    body: bytes = b""  # packed; empty if it lies in parts
    parts: int = 0


class StoredRecord(NamedTuple):
    """`record` is None if there is none; the revision is still valid for compare-and-set."""

    record: Record | None
    revision: int


NOTHING = StoredRecord(None, 0)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class IdempotencyStore:
    def __init__(self, client: BrokerClient, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._client = client
        self._jetstream = jetstream
        self._bucket = Bucket(jetstream, config.idempotency_kv_bucket)
        self._live_prefix = config.idempotency_subject_prefix
        self.ttl_sec = config.idempotency_ttl_sec

    @property
    def _ttl(self) -> str:
        return f"{int(self.ttl_sec)}s"

    async def get(self, address: str) -> StoredRecord:
        """Through the leader, because readers of a record decide by it."""
        entry = await self._bucket.get_at_leader(address)
        return StoredRecord(_record(entry.value), entry.revision)

    async def put(self, address: str, record: Record, *, revision: int) -> int:
        """Raises WrongSequence if another writer was first. After a lost answer the record is read."""
        sent_before = False
        for tries_left in reversed(range(PUT_TRIES_MAX)):
            try:
                return await self._bucket.put(address, _encode(record), revision=revision, ttl=self._ttl)
            except AnswerLost:
                sent_before = True
                if not tries_left:
                    raise
            except WrongSequence:
                kept = await self.get(address) if sent_before else NOTHING
                if kept.record != record:
                    raise
                return kept.revision
        raise AssertionError("unreachable")

    async def put_done(self, address: str, record: Record, body: bytes, *, revision: int) -> int:
        """With its answer of any size. The parts are stored first, so a finished record is complete."""
        packed = await _pack(body)
        if len(packed) <= PART_BYTES_MAX:
            return await self.put(address, replace(record, body=packed), revision=revision)
        parts = [packed[at : at + PART_BYTES_MAX] for at in range(0, len(packed), PART_BYTES_MAX)]
        for number, part in enumerate(parts):
            await self._bucket.put(_part(address, record, number), part, ttl=self._ttl)
        return await self.put(address, replace(record, parts=len(parts)), revision=revision)

    async def body_of(self, address: str, record: Record) -> bytes:
        """The answer, byte for byte."""
        if not record.parts:
            return await _unpack(record.body)
        places = (_part(address, record, number) for number in range(record.parts))
        entries = await asyncio.gather(*map(self._bucket.get_at_leader, places))
        return await _unpack(b"".join(entry.value or b"" for entry in entries))

    async def delete(self, address: str, *, revision: int) -> None:
        """Raises WrongSequence like `put`."""
        await self._bucket.delete(address, revision=revision, ttl=MARK_KEPT)

    async def below(self, owner: str, limit: int) -> list[tuple[str, Record]]:
        """Addresses and records of one key of one caller, oldest write first."""
        found: list[tuple[str, Record]] = []
        bucket, seq = self._bucket, 0
        subject = f"{bucket.prefix}{owner}.*"
        while len(found) < limit and (
            message := await self._jetstream.next_at_leader(bucket.stream, subject, seq)
        ):
            seq = message.seq
            record = None if is_deletion(message) else _record(message.data)
            if record is not None:
                found.append((bucket.key_of(message), record))
        return found

    @asynccontextmanager
    async def watch(self, address: str) -> AsyncIterator[asyncio.Event]:
        """An event that the broker sets after each write of this record."""
        written = asyncio.Event()
        sid = await self._client.listen(f"{self._live_prefix}.{address}", lambda *_: written.set())
        try:
            yield written
        finally:
            await self._client.unlisten(sid)


def _part(address: str, record: Record, number: int) -> str:
    """Below the id of the writer, so that parts of two writers do not mix."""
    return f"{address}.{record.holder}.{number}"


async def _pack(body: bytes) -> bytes:
    if len(body) <= PART_BYTES_MAX:
        return zlib.compress(body)
    return await asyncio.to_thread(zlib.compress, body)


async def _unpack(packed: bytes) -> bytes:
    if len(packed) <= PART_BYTES_MAX:
        return zlib.decompress(packed)
    return await asyncio.to_thread(zlib.decompress, packed)


def _record(value: bytes | None) -> Record | None:
    """None for a record that cannot be read: it is overwritten."""
    if not value:
        return None
    try:
        return _decode(value)
    except msgspec.MsgspecError as error:
        log.warning("an idempotency record cannot be read", extra={"error": str(error)})
        return None
