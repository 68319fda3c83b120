"""A bucket: one current value per key. Decisions are made by compare-and-set on the revision of a key."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
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
    """`revision` in writes: write only if the key is at this revision (0: not there), else WrongSequence is
    raised; None: write in any case. `ttl`: the broker removes the message after this time, such as "48h".
    """

    def __init__(self, jetstream: JetStream, name: str) -> None:
        self._jetstream = jetstream
        self.stream = f"KV_{name}"
        self.prefix = f"$KV.{name}."

    async def get(self, key: str) -> KvEntry:
        return _entry(await self._jetstream.last(self.stream, self.prefix + key))

    async def get_at_leader(self, key: str) -> KvEntry:
        return _entry(await self.message(key))

    async def get_confirmed(self, key: str) -> KvEntry:
        """Through the leader. A majority has confirmed that a key is not there."""
        for _ in range(CONFIRM_TRIES_MAX):
            entry = await self.get_at_leader(key)
            if entry.value is not None or await self.is_latest(key, entry.revision):
                return entry
        raise Unavailable(f"The record {key} changes too fast to be read. Try again.")

    async def is_latest(self, key: str, revision: int) -> bool:
        """Whether the key is at this revision (0: not there), confirmed by a majority."""
        prefix = self.prefix
        return await confirm(self._jetstream, self.stream, prefix + MARK, prefix + key, revision)

    async def put(self, key: str, value: bytes, *, revision: int | None = None, ttl: str = "") -> int:
        return (await self.put_soon(key, value, revision=revision, ttl=ttl)).seq

    def put_soon(
        self, key: str, value: bytes, *, revision: int | None = None, ttl: str = ""
    ) -> Awaitable[PubAck]:
        """Sent now; the acknowledgement has the revision."""
        return self._jetstream.publish_soon(self.prefix + key, value, _headers(revision, ttl))

    async def delete(self, key: str, *, revision: int | None = None, ttl: str = "") -> int:
        """Leave a mark of the deletion, so that readers of the stream see it. Returns its revision."""
        headers = _headers(revision, ttl, KV_Operation="DEL")
        return (await self._jetstream.publish(self.prefix + key, b"", headers)).seq

    async def remove(self, key: str, *, upto: int | None = None) -> None:
        """Leave nothing of the key, also no mark of a deletion. `upto`: a value written after it stays."""
        await self._jetstream.purge(self.stream, self.prefix + key, upto=upto)

    async def message(self, key: str) -> StoredMessage | None:
        """The last message of the key as the leader has it, with the time at which it was stored."""
        return await self._jetstream.last_at_leader(self.stream, self.prefix + key)

    async def after(self, keys: str, revision: int = 0) -> list[StoredMessage]:
        """All keys that match and were written after this revision, deletions too, oldest first.

        A key that is written while this reads may be there twice.
        """
        return await self._jetstream.after(self.stream, self.prefix + keys, revision)

    async def page(self, keys: str, count: int, revision: int = 0) -> list[StoredMessage]:
        """The same, at most `count` of them."""
        return await self._jetstream.page(self.stream, self.prefix + keys, revision, count)

    async def last_of(self, keys: Sequence[str]) -> list[StoredMessage]:
        """The current values of these keys, those that exist."""
        return await self._jetstream.last_of(self.stream, [self.prefix + key for key in keys])

    async def now(self) -> float:
        """The time of the broker."""
        return await self._jetstream.clock(self.stream)

    def key_of(self, message: StoredMessage) -> str:
        return message.subject[len(self.prefix) :]


def is_deletion(message: StoredMessage) -> bool:
    return message.header(b"KV-Operation") is not None


def _entry(message: StoredMessage | None) -> KvEntry:
    if message is None:
        return NOTHING
    return KvEntry(None if is_deletion(message) else message.data, message.seq)


def _headers(revision: int | None, ttl: str, **fields: str | int) -> bytes:
    if revision is not None:
        fields["Nats_Expected_Last_Subject_Sequence"] = revision
    if ttl:
        fields["Nats_TTL"] = ttl
    return header_block(**fields) if fields else b""
