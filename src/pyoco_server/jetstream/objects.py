"""Values that are too large for one message: an object store bucket in the layout of all nats clients.

Owns the chunks and meta messages of one bucket: cuts data into chunks, sends and reads several at a time, and
checks their digest. The meaning of an object, and access to it, are the caller's.

An object is named by its meta message. A put sends the chunks under a new id (`nuid`) first and then the meta
message at the revision that was read, so that readers see the old object or the new one, and no writer
replaces an object that it has not seen. Decisions use reads from the leader; `list` may lag.
"""

from __future__ import annotations

import asyncio
import builtins
import hashlib
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

from pyoco_server.errors import Conflict, Internal, NotFound, Unavailable
from pyoco_server.jetstream.api import JetStream, PubAck, StoredMessage
from pyoco_server.jetstream.errors import AnswerLost, WrongSequence
from pyoco_server.jetstream.headers import header_block
from pyoco_server.jetstream.object_info import (
    ObjectInfo,
    decode_info,
    digest_text,
    encode_info,
    encode_name,
    now_text,
)

log = logging.getLogger(__name__)

CHUNK_BYTES = 128 * 1024
CHUNKS_IN_FLIGHT_MAX = 16
CHUNKS_READ_AT_ONCE = 16
# So many writers can replace one object at once; each succeeds.
WRITE_TRIES_MAX = 20
READ_TRIES_MAX = 5

Admit = Callable[[Sequence[ObjectInfo]], None]


class ObjectDamaged(Internal):
    """Chunks are missing, or the bytes are not those that were put."""


class NotSame(Conflict):
    """There is an object of this name with other bytes."""


class Objects:
    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self._jetstream = jetstream
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"
        self._chunks = f"$O.{bucket}.C."
        self._metas = f"$O.{bucket}.M."

    @property
    def bucket(self) -> str:
        return self._bucket

    async def put(
        self,
        name: str,
        data: bytes | AsyncIterator[bytes],
        *,
        headers: Mapping[str, str] | None = None,
        expected_revision: int | None = None,
        admit: Admit | None = None,
    ) -> ObjectInfo:
        """Store the whole of `data` or nothing.

        With `expected_revision` (0: not there) WrongSequence is raised if the object is at another revision.
        `admit` is a rule about the whole bucket: it is called with all objects, and an error that it raises
        refuses the put. The meta message is then published at the sequence of that list: if another object
        was put or deleted meanwhile, `admit` is called again. With neither, the last writer wins.
        """
        before = await self._at_leader(name)
        if expected_revision is not None and _revision_to_see(before) != expected_revision:
            raise WrongSequence
        nuid = self._new_nuid(name)
        is_referenced = False
        try:
            size, chunks, digest = await self._send(self._chunks + nuid, data)
            info = ObjectInfo(
                name=name, bucket=self._bucket, nuid=nuid, size=size, chunks=chunks, digest=digest,
                headers=dict(headers or {}), modified=now_text(), max_chunk_size=CHUNK_BYTES,
            )  # fmt: skip
            if admit is not None:
                replaced, revision = await self._announce_if(info, admit)
            else:
                replaced, revision = await self._announce(info, before, once=expected_revision is not None)
            is_referenced = True
        except _OutcomeUnknown:
            is_referenced = True  # the meta message may be stored, now or later, and needs its chunks
            raise
        finally:
            if not is_referenced:  # also after a cancel
                await self._drop_chunks(nuid)
        if replaced is not None and replaced.nuid:
            await self._drop_chunks(replaced.nuid)
        return info.at(revision)

    async def create(self, name: str, data: bytes | AsyncIterator[bytes], sha256: str) -> ObjectInfo:
        """Returns an existing object with this digest: an earlier try stored it. Else raises NotSame."""
        try:
            return await self.put(name, data, expected_revision=0)
        except WrongSequence:
            found = await self.info(name)
            if found is None or found.sha256_hex != sha256:
                raise NotSame(f"The object {name} exists already, with other bytes.") from None
            return found

    async def get(self, name: str) -> bytes:
        """The whole object, for objects that fit into memory."""
        for _ in range(READ_TRIES_MAX):
            info = await self._present(name)
            try:
                return b"".join([piece async for piece in self.pieces(info)])
            except ObjectDamaged:
                if await self._is_still(info):
                    raise
        raise Unavailable(f"The object {name} changes too fast to be read. Try again.")

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        """Piece by piece. The last step of the iteration raises if the digest does not match."""
        info = await self._present(name)
        try:
            async for piece in self.pieces(info):
                yield piece
        except ObjectDamaged as damaged:
            if await self._is_still(info):
                raise
            raise Unavailable(f"The object {name} was replaced while it was read. Try again.") from damaged

    async def info(self, name: str) -> ObjectInfo | None:
        found = await self._at_leader(name)
        return None if found is None or found.deleted else found

    async def list(self) -> builtins.list[ObjectInfo]:
        """All objects, by name."""
        found = by_name(await self._jetstream.after(self._stream, self._metas + ">", 0))
        return [found[name] for name in sorted(found) if not found[name].deleted]

    async def delete(self, name: str, *, expected_revision: int | None = None) -> ObjectInfo:
        """Returns the deleted object. Raises NotFound, or WrongSequence if it is at another revision."""
        found = await self._present(name)
        for _ in range(WRITE_TRIES_MAX):
            if expected_revision is not None and found.revision != expected_revision:
                raise WrongSequence
            try:
                await self._publish(found.gone(now_text()), found.revision)
            except WrongSequence:
                found = await self._present(name)
            except AnswerLost:
                now = await self.info(name)
                if now is None:  # most likely deleted by this request
                    break
                found = now
            else:
                break
        else:
            raise Unavailable(f"The object {name} changes too fast to be deleted. Try again.")
        await self._drop_chunks(found.nuid)
        return found

    async def remove(self, name: str) -> None:
        """Remove the object, without a mark of the deletion."""
        info = await self.info(name)
        await self._jetstream.purge(self._stream, self._meta(name))
        if info is not None:
            await self._jetstream.purge(self._stream, self._chunks + info.nuid)

    async def _send(self, subject: str, data: bytes | AsyncIterator[bytes]) -> tuple[int, int, str]:
        digest, size, chunks = hashlib.sha256(), 0, 0
        under_way: deque[Awaitable[PubAck]] = deque()
        try:
            async for piece in _cut(data):
                digest.update(piece)
                size, chunks = size + len(piece), chunks + 1
                if len(under_way) >= CHUNKS_IN_FLIGHT_MAX:
                    await under_way.popleft()
                under_way.append(self._jetstream.publish_soon(subject, piece, b""))
        finally:
            # Also after a failure: the chunks can be dropped only after the last one is stored.
            ends = await asyncio.gather(*map(_wait_for_ack, under_way), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return size, chunks, digest_text(digest.digest())

    async def _announce(
        self, info: ObjectInfo, before: ObjectInfo | None, *, once: bool
    ) -> tuple[ObjectInfo | None, int]:
        """Returns the object that was replaced, and the new revision."""
        for _ in range(WRITE_TRIES_MAX):
            try:
                return before, await self._publish_surely(info, before.revision if before else 0)
            except WrongSequence:
                if once:
                    raise
                before = await self._at_leader(info.name)
        raise Unavailable(f"The object {info.name} changes too fast to be replaced. Try again.")

    async def _announce_if(self, info: ObjectInfo, admit: Admit) -> tuple[ObjectInfo | None, int]:
        for _ in range(WRITE_TRIES_MAX):
            messages = await self._jetstream.after_at_leader(self._stream, self._metas + ">", 0)
            found = by_name(messages)
            admit([other for other in found.values() if not other.deleted])
            try:
                seq = messages[-1].seq if messages else 0
                return found.get(info.name), await self._publish_surely(info, seq, of=self._metas + ">")
            except WrongSequence:
                continue
        raise Unavailable("Too many objects are added at once. Try again.")

    async def _publish_surely(self, info: ObjectInfo, revision: int, of: str | None = None) -> int:
        """Publish, again after a lost answer: at one expected revision it is stored once or refused."""
        try:
            return await self._publish(info, revision, of)
        except AnswerLost:
            pass
        try:
            return await self._publish(info, revision, of)
        except WrongSequence:
            return await self._revision_of_ours(info)
        except Unavailable as error:
            raise _OutcomeUnknown(info.name) from error

    async def _revision_of_ours(self, info: ObjectInfo) -> int:
        """After a lost answer and a refusal: the first try was stored, or is still on its way."""
        try:
            now = await self._at_leader(info.name)
        except Unavailable as error:
            raise _OutcomeUnknown(info.name) from error
        if now is None or now.nuid != info.nuid:
            raise _OutcomeUnknown(info.name)
        return now.revision

    async def _publish(self, info: ObjectInfo, revision: int, of: str | None = None) -> int:
        """Publish the meta message if the object, or the last message of `of`, is at this revision."""
        headers = header_block(
            Nats_Rollup="sub",
            Nats_Expected_Last_Subject_Sequence=revision,
            Nats_Expected_Last_Subject_Sequence_Subject=of or self._meta(info.name),
        )
        return (await self._jetstream.publish(self._meta(info.name), encode_info(info), headers)).seq

    async def pieces(self, info: ObjectInfo) -> AsyncIterator[bytes]:
        """The chunks of this object. The last step of the iteration raises if the digest does not match."""
        digest, left, seq = hashlib.sha256(), info.chunks, 0
        while left:
            messages = await self._chunks_after(info, seq, min(left, CHUNKS_READ_AT_ONCE))
            for message in messages:
                digest.update(message.data)
                yield message.data
            left, seq = left - len(messages), messages[-1].seq
        if digest_text(digest.digest()).rstrip("=") != info.digest.rstrip("="):
            raise ObjectDamaged(f"The object {info.name} is not what was put: its digest differs.")

    async def _chunks_after(self, info: ObjectInfo, seq: int, count: int) -> builtins.list[StoredMessage]:
        """At least one chunk. A replica may lag, so only the leader decides that chunks are missing."""
        subject = self._chunks + info.nuid
        if page := await self._jetstream.page(self._stream, subject, seq, count):
            return page
        found = await self._jetstream.next_at_leader(self._stream, subject, seq)
        if found is None:
            raise ObjectDamaged(f"The object {info.name} is not whole: chunks are missing.")
        return [found]

    async def _present(self, name: str) -> ObjectInfo:
        found = await self.info(name)
        if found is None:
            raise NotFound(f"There is no object {name} in {self._bucket}.", err_id="")
        return found

    async def _is_still(self, info: ObjectInfo) -> bool:
        now = await self.info(info.name)
        return now is not None and now.nuid == info.nuid

    async def _at_leader(self, name: str) -> ObjectInfo | None:
        message = await self._jetstream.last_at_leader(self._stream, self._meta(name))
        if message is None:
            return None
        # An unreadable meta message counts as deleted, but its revision is valid.
        unreadable = ObjectInfo(name=name, bucket=self._bucket, nuid="", deleted=True, revision=message.seq)
        return _info(message) or unreadable

    async def _drop_chunks(self, nuid: str) -> None:
        try:
            await self._jetstream.purge(self._stream, self._chunks + nuid)
        except Unavailable as error:
            # They only take space: no meta message names them.
            log.warning("chunks were not removed", extra={"nuid": nuid, "error": error.message})

    def _meta(self, name: str) -> str:
        return self._metas + encode_name(name)

    def _new_nuid(self, _name: str) -> str:
        return secrets.token_hex(11).upper()


class _OutcomeUnknown(Unavailable):
    def __init__(self, name: str) -> None:
        super().__init__(f"The broker did not say whether {name} was stored. Look, or try again.")


def _info(message: StoredMessage) -> ObjectInfo | None:
    return decode_info(message.data, message.seq, message.header(b"Nats-Time-Stamp"))


def by_name(messages: Iterable[StoredMessage]) -> dict[str, ObjectInfo]:
    """The latest of each name: an object that was replaced during the read is there twice."""
    return {info.name: info for info in map(_info, messages) if info is not None}


def _revision_to_see(info: ObjectInfo | None) -> int:
    return 0 if info is None or info.deleted else info.revision


async def _wait_for_ack(publishing: Awaitable[PubAck]) -> PubAck:
    return await publishing


async def _cut(data: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces of exactly one chunk, and a last one with the rest."""
    if isinstance(data, bytes):
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]
        return
    kept = bytearray()
    async for piece in data:
        kept += piece
        while len(kept) >= CHUNK_BYTES:
            yield bytes(kept[:CHUNK_BYTES])
            del kept[:CHUNK_BYTES]
    if kept:
        yield bytes(kept)
