"""A bucket: one current value per key, changed only by compare-and-set. Refuses to list keys."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream, PubAck, StoredMessage
from pyoco_server.jetstream.confirmed_reads import CONFIRM_TRIES_MAX, MARK, confirm
from pyoco_server.jetstream.headers import header_block


class KvEntry(NamedTuple):
    """`value` is None for a key that was deleted: its revision still counts for compare-and-set."""

    value: bytes | None
    revision: int


NOTHING = KvEntry(None, 0)


class Bucket:
    def __init__(self, jetstream: JetStream, name: str) -> None:
        self._jetstream = jetstream
        self._stream = f"KV_{name}"
        self._prefix = f"$KV.{name}."

    async def get(self, key: str) -> KvEntry:
        return _entry(await self._jetstream.last(self._stream, self._prefix + key))

    async def get_at_leader(self, key: str) -> KvEntry:
        return _entry(await self._jetstream.last_at_leader(self._stream, self._prefix + key))

    async def get_confirmed(self, key: str) -> KvEntry:
        """Through the leader; where the key is not there, a majority has said so."""
        for _ in range(CONFIRM_TRIES_MAX):
            entry = await self.get_at_leader(key)
            if entry.value is not None or await self.is_latest(key, entry.revision):
                return entry
        raise Unavailable(f"The record {key} changes too fast to be read. Try again.")

    async def is_latest(self, key: str, revision: int) -> bool:
        """Whether the key is at this revision (0: not there), as a majority knows."""
        prefix = self._prefix
        return await confirm(self._jetstream, self._stream, prefix + MARK, prefix + key, revision)

    async def put(self, key: str, value: bytes, *, revision: int) -> int:
        """Write if the key is still at `revision` (0: not there). Raises WrongSequence otherwise."""
        headers = header_block(Nats_Expected_Last_Subject_Sequence=revision)
        return (await self._jetstream.publish(self._prefix + key, value, headers)).seq

    def put_soon(self, key: str, value: bytes, *, revision: int) -> Awaitable[PubAck]:
        """Sent now; the acknowledgement carries the revision."""
        headers = header_block(Nats_Expected_Last_Subject_Sequence=revision)
        return self._jetstream.publish_soon(self._prefix + key, value, headers)

    async def delete(self, key: str, *, revision: int) -> int:
        headers = header_block(KV_Operation="DEL", Nats_Expected_Last_Subject_Sequence=revision)
        return (await self._jetstream.publish(self._prefix + key, b"", headers)).seq

    async def remove(self, key: str, *, upto: int | None = None) -> None:
        """Leave nothing of the key, no mark of a deletion either. `upto`: what was written after it stays."""
        asked: dict[str, str | int] = {"filter": self._prefix + key}
        if upto is not None:
            asked["seq"] = upto + 1
        await self._jetstream.api(f"STREAM.PURGE.{self._stream}", asked)


def _entry(message: StoredMessage | None) -> KvEntry:
    if message is None:
        return NOTHING
    deleted = message.header(b"KV-Operation") is not None
    return KvEntry(None if deleted else message.data, message.seq)
