"""A request with an idempotency key: it has one effect, and every repetition gets the first answer.

    async with KeyedRequest(store, key, body) as request:
        if request.earlier is not None:
            return request.earlier
        ...  # have the effect, with the ids of `request.reservation`
        return await request.remember(RecordedAnswer(status=202, body=...))

What the effect creates has the id `reservation.resource_id`, and its commit has `reservation.command_id`.
Both stay the same for as long as the key is stored, so that a request that continues after a crash finds what
exists already (`apply_once`; `store.runs.log.create` finds it by itself). An error in the block gives the
reservation up. Statuses, headers and bodies are the faces'.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.errors import IdempotencyConflict, Internal, PyocoError, Unavailable
from pyoco_server.ids import new_token, new_uuid
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.request_digest import RequestDigest, differing, digest_of
from pyoco_server.store.idempotency import NOTHING, Record, RecordState, StoredRecord
from pyoco_server.store.store import Store
from pyoco_server.supervision import wait_for_event

log = logging.getLogger(__name__)

# Other requests with the key wait this long for its holder, and then take the key over.
TAKE_OVER_AFTER_SEC = 5.0
# The longest wait of one request in total. It is reached when other requests take the key over first.
WAIT_SEC_MAX = 10.0
# The broker announces each write of a record. This is the interval of reads in case an announcement is lost.
LOOK_AGAIN_SEC = 1.0
SETTLE_TRIES_MAX = 5
FIRST_ERROR_STATUS = 400


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to all requests with one key. Never an error: errors are raised."""

    status: int
    body: bytes
    headers: dict[str, str] = {}
    event_ids: list[str] = []


class KeyedAnswer(RecordedAnswer, frozen=True, kw_only=True):
    """The answer as it is in the store. `replayed`: an earlier request produced it."""

    replayed: bool
    resource_id: str


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """The right to have the effect. `redriven`: an earlier holder may have had the effect already."""

    resource_id: str
    command_id: str
    redriven: bool
    alone_until: float

    @property
    def may_have_happened(self) -> bool:
        """Another request may have had the effect: the caller looks for `command_id` first.

        False until other requests may take the key over. That time is measured from before the reservation,
        by a monotonic clock that also counts while the machine is suspended.
        """
        return self.redriven or elapsed() >= self.alone_until

    def event_ids(self, count: int) -> list[str]:
        """The ids of the first events of the commit: where they are in the log."""
        return [f"{self.command_id}.{index}" for index in range(count)]


class KeyedRequest:
    """`asked`: the body as received. `resource_id`: the id of the resource that the request changes; without
    it a new id is made.

    `needs_room`: the request creates something. While the broker is low on storage it is refused before it is
    reserved; an answer that exists is replayed all the same.

    What can be refused without an effect is refused before: an invalid body reserves nothing.
    """

    def __init__(
        self,
        store: Store,
        key: IdempotencyKey,
        asked: bytes | Mapping[str, object] | RequestDigest,
        *,
        resource_id: str | None = None,
        needs_room: bool = False,
    ) -> None:
        self._ledger = store.ledger
        self._room = store.room if needs_room else None
        self._key = key
        self._address = key.address
        self._asked = asked
        self._resource_id = resource_id
        self._held: Record | None = None  # from the reservation until the answer is stored
        self._revision = 0
        self._alone_until = 0.0
        # The answer that is stored already. With it there is no reservation.
        self.earlier: KeyedAnswer | None = None

    async def __aenter__(self) -> KeyedRequest:
        asked = self._asked if isinstance(self._asked, RequestDigest) else await digest_of(self._asked)
        if self._room is not None and self._room.is_low:
            known = (await self._ledger.get(self._address)).record
            if known is None or known.state is not RecordState.DONE:
                self._room.check()
        self.earlier = await self._find_or_reserve(asked)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After any error the reservation is given up: other requests must not wait for this one."""
        if self._held is not None and isinstance(error, Exception):
            await self._give_up(self._held, refused=_is_refusal(error))

    @property
    def reservation(self) -> Reservation:
        assert self._held is not None, "a request with an earlier answer holds no reservation"
        return Reservation(
            resource_id=self._held.resource_id,
            command_id=self._held.command_id,
            redriven=self._held.tries > 1,
            alone_until=self._alone_until,
        )

    async def remember(self, answer: RecordedAnswer) -> KeyedAnswer:
        """Store the answer before it is sent. If another request stored one first, return that one."""
        assert answer.status < FIRST_ERROR_STATUS, "errors are raised, never remembered"
        assert self._held is not None, "only the holder of a reservation has an answer"
        record, self._held = self._held, None
        done = _done(record, answer, self._ledger.ttl_sec)
        revision = self._revision
        for _ in range(SETTLE_TRIES_MAX):
            try:
                await self._ledger.put_done(self._address, done, answer.body, revision=revision)
                return _answer(done, answer.body, replayed=False)
            except WrongSequence:
                # Another request took the key over and does the same. The first to finish gives the answer.
                kept = await self._ledger.get(self._address)
            if kept.record is not None and kept.record.command_id != record.command_id:
                log.warning("a key was used again meanwhile", extra=self._fields(record))
                return _answer(done, answer.body, replayed=False)
            if kept.record is not None and kept.record.state is RecordState.DONE:
                return await self._replay(kept.record)
            revision = kept.revision
        raise _busy()

    async def _find_or_reserve(self, asked: RequestDigest) -> KeyedAnswer | None:
        """None if this request holds the reservation. Nearly always the first create succeeds."""
        give_up_at = elapsed() + WAIT_SEC_MAX
        first = self._new_record(asked)
        kept = NOTHING
        while True:
            wanted, known = first, kept.record
            if known is not None:
                if known.digest != asked.digest:
                    raise _conflict(differing(known.members, asked.members))
                if known.state is RecordState.DONE:
                    return await self._replay(known)
                _check_patience(give_up_at)
                if known.held and (now := await self._wait_for_holder(kept)).revision != kept.revision:
                    kept = now
                    continue
                wanted = _take_over(known, self._ledger.ttl_sec)
            _check_patience(give_up_at)
            if await self._reserve(wanted, kept.revision):
                return None
            kept = await self._ledger.get(self._address)

    def _new_record(self, asked: RequestDigest) -> Record:
        now = clock.now()
        return Record(
            method=self._key.method,
            path=self._key.path,
            digest=asked.digest,
            members=asked.members,
            holder=new_token(),
            resource_id=self._resource_id or new_uuid(),
            command_id=new_token() + new_token(),
            reserved_at=now,
            expires_at=now + self._ledger.ttl_sec,
        )

    async def _wait_for_holder(self, kept: StoredRecord) -> StoredRecord:
        """The record after its holder has written it, or after the time that the holder has for that."""
        patience_until = elapsed() + TAKE_OVER_AFTER_SEC
        async with self._ledger.watch(self._address) as written:
            while True:
                written.clear()
                now = await self._ledger.get(self._address)
                left_sec = patience_until - elapsed()
                if now.revision != kept.revision or left_sec <= 0:
                    return now
                await wait_for_event(written, min(left_sec, LOOK_AGAIN_SEC))

    async def _reserve(self, record: Record, revision: int) -> bool:
        began = elapsed()
        try:
            self._revision = await self._ledger.put(self._address, record, revision=revision)
        except WrongSequence:
            return False
        self._held, self._alone_until = record, began + TAKE_OVER_AFTER_SEC
        if record.tries > 1:
            log.info("a request is taken over", extra=self._fields(record))
        return True

    async def _give_up(self, record: Record, *, refused: bool) -> None:
        """Delete the reservation after a refusal. After another error the next request continues from it."""
        try:
            if refused:
                await self._ledger.delete(self._address, revision=self._revision)
            else:
                left = replace(record, held=False, holder=new_token())
                await self._ledger.put(self._address, left, revision=self._revision)
        except WrongSequence:
            pass  # another request has taken the key over
        except Unavailable as error:
            log.warning("a reservation was left", extra=self._fields(record) | {"error": error.message})

    async def _replay(self, done: Record) -> KeyedAnswer:
        return _answer(done, await self._ledger.body_of(self._address, done), replayed=True)

    def _fields(self, record: Record) -> dict[str, object]:
        return {
            "idempotency_key_hash": self._key.hashed,
            "path": self._key.path,
            "command_id": record.command_id,
            "tries": record.tries,
        }


def _check_patience(give_up_at: float) -> None:
    if elapsed() > give_up_at:
        raise _busy()


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, PyocoError) and not isinstance(error, Unavailable | Internal)


def _take_over(left: Record, ttl_sec: float) -> Record:
    """The same resource and the same command with another holder."""
    return replace(
        left, holder=new_token(), held=True, tries=left.tries + 1, expires_at=clock.now() + ttl_sec
    )


def _done(record: Record, answer: RecordedAnswer, ttl_sec: float) -> Record:
    return replace(
        record,
        state=RecordState.DONE,
        holder=new_token(),
        status=answer.status,
        headers=answer.headers,
        event_ids=answer.event_ids,
        expires_at=clock.now() + ttl_sec,
    )


def _answer(done: Record, body: bytes, *, replayed: bool) -> KeyedAnswer:
    return KeyedAnswer(
        status=done.status,
        body=body,
        headers=done.headers,
        replayed=replayed,
        resource_id=done.resource_id,
        event_ids=done.event_ids,
    )


def _busy() -> Unavailable:
    return Unavailable(
        "Another request with this idempotency key is still under way. Send it again in a moment.",
        retry_after_sec=1.0,
    )


def _conflict(names: list[str]) -> IdempotencyConflict:
    where = (
        f"{', '.join(names)} {'differs' if len(names) == 1 else 'differ'}" if names else "the body differs"
    )
    return IdempotencyConflict(
        f"This idempotency key was used for another request: {where}. "
        "Send what was sent first, or use a new key.",
        details={"differs": names},
    )
