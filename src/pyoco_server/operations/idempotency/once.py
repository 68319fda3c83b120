"""One effect for all requests with one key: reserve, do, remember the answer, and give it again.

    answer = await once(store, key, body, do)

`do(reservation)` has the effect and returns its answer, or raises a refusal. Whatever it makes carries
`reservation.resource_id`, and the commit it makes `reservation.command_id`: both stay the same for as long as
the key is kept, so that another try after a crash finds what the first one did (`redrive.apply_once`;
`store.runs.log.create` finds it by itself). Knows no dialect: statuses and headers are the faces'.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.errors import IdempotencyConflict, Internal, PyocoError, Unavailable
from pyoco_server.ids import new_token, new_uuid
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.request_digest import RequestDigest, differing, fingerprint_of
from pyoco_server.store.idempotency import NOTHING, IdempotencyStore, Kept, Record, RecordState
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# Other requests with the key wait this long for its holder, and then take it over.
TAKE_OVER_AFTER_SEC = 5.0
# And so long in all, when another request took it over first.
ATTEND_SEC_MAX = 10.0
# The broker tells when a record was written; should that not arrive, we look all the same.
LOOK_AGAIN_SEC = 1.0
SETTLE_TRIES_MAX = 5
FIRST_THAT_IS_NO_ANSWER = 400


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller gets, and everybody who comes with the key later. Never an error: those are raised."""

    status: int
    body: bytes
    headers: dict[str, str] = {}
    event_ids: list[str] = []


class Once(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, made now or given again (`replayed`)."""

    status: int
    body: bytes
    headers: dict[str, str]
    replayed: bool
    resource_id: str
    event_ids: list[str]


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """The right to have the effect. `redriven`: somebody had it before, who may have had the effect."""

    resource_id: str
    command_id: str
    redriven: bool
    alone_until: float

    @property
    def may_have_happened(self) -> bool:
        """Somebody else may have had the effect: look for `command_id` before you do.

        Not before others may take over, counted from before it was reserved, by our own stopwatch, which
        also counts while this machine is suspended.
        """
        return self.redriven or elapsed() >= self.alone_until

    def event_ids(self, count: int) -> list[str]:
        """Of the first events of its commit: where they are, for who reads the log."""
        return [f"{self.command_id}.{index}" for index in range(count)]


Do = Callable[[Reservation], Awaitable[RecordedAnswer]]


async def once(
    store: Store,
    key: IdempotencyKey,
    asked: bytes | Mapping[str, Any] | RequestDigest,
    do: Do,
    *,
    resource_id: str | None = None,
    needs_room: bool = False,
) -> Once:
    """`asked`: the body as received. `resource_id`: of what the request is about; else one is minted.

    `needs_room`: of a request that makes something new, refused before it is reserved while the broker has no
    room; an answer that is there is given all the same.

    Whatever can be refused without an effect is refused before: a body that is not valid reserves nothing.
    """
    wanted = asked if isinstance(asked, RequestDigest) else await fingerprint_of(asked)
    if needs_room and store.room.is_low:
        known = (await store.ledger.get(key.address)).record
        if known is None or known.state is not RecordState.DONE:
            store.room.check()
    turn = _Request(store.ledger, key, wanted)
    first = turn.reserved(resource_id or new_uuid())
    given = await turn.take(first)
    return given if isinstance(given, Once) else await turn.carry_out(do)


class _Request:
    """One request's way through the ledger."""

    def __init__(self, ledger: IdempotencyStore, key: IdempotencyKey, wanted: RequestDigest) -> None:
        self._ledger = ledger
        self._key = key
        self._address = key.address
        self._wanted = wanted
        self._give_up_at = elapsed() + ATTEND_SEC_MAX
        self._mine = NOTHING
        self._alone_until = 0.0

    def reserved(self, resource_id: str) -> Record:
        now = clock.now()
        return Record(
            method=self._key.method,
            path=self._key.path,
            digest=self._wanted.digest,
            members=self._wanted.members,
            holder=new_token(),
            resource_id=resource_id,
            command_id=new_token() + new_token(),
            reserved_at=now,
            expires_at=now + self._ledger.ttl_sec,
        )

    async def take(self, first: Record) -> Once | None:
        """None when it is ours to do, else the answer that is there. Nearly always the first create wins."""
        kept = NOTHING
        while True:
            wanted, known = first, kept.record
            if known is not None:
                self._check_same(known)
                if known.state is RecordState.DONE:
                    return await self._replay(known)
                if known.held and (now := await self._attended(kept)).revision != kept.revision:
                    kept = now
                    continue
                wanted = _taken_over(known, self._ledger.ttl_sec)
            if await self._reserve(wanted, kept.revision):
                return None
            kept = await self._ledger.get(self._address)

    async def carry_out(self, do: Do) -> Once:
        record = self._mine.record
        assert record is not None
        reservation = Reservation(
            resource_id=record.resource_id,
            command_id=record.command_id,
            redriven=record.tries > 1,
            alone_until=self._alone_until,
        )
        try:
            answer = await do(reservation)
            assert answer.status < FIRST_THAT_IS_NO_ANSWER, "errors are raised, never remembered"
        except Exception as error:  # any error: other requests must not wait for a holder that has left
            await self._leave(record, refused=_is_refusal(error))
            raise
        return await self._settle(record, answer)

    def _check_same(self, record: Record) -> None:
        if record.digest != self._wanted.digest:
            raise _conflict(differing(record.members, self._wanted.members))

    def _check_patience(self) -> None:
        if elapsed() > self._give_up_at:
            raise _busy()

    async def _attended(self, kept: Kept) -> Kept:
        """How it stands when whoever has it has written something, or had enough time for it."""
        self._check_patience()
        patience_until = elapsed() + TAKE_OVER_AFTER_SEC
        async with self._ledger.news_of(self._address) as news:
            while True:
                news.clear()
                now = await self._ledger.get(self._address)
                left_sec = patience_until - elapsed()
                if now.revision != kept.revision or left_sec <= 0:
                    return now
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_sec, LOOK_AGAIN_SEC)):
                        await news.wait()

    async def _reserve(self, record: Record, revision: int) -> bool:
        self._check_patience()
        began = elapsed()
        try:
            self._mine = Kept(record, await self._ledger.put(self._address, record, revision=revision))
        except WrongSequence:
            return False
        self._alone_until = began + TAKE_OVER_AFTER_SEC
        if record.tries > 1:
            log.info("a request is taken over", extra=self._fields(record))
        return True

    async def _settle(self, record: Record, answer: RecordedAnswer) -> Once:
        """Remembered before it is given: what is answered once is answered so again."""
        done = _done(record, answer, self._ledger.ttl_sec)
        revision = self._mine.revision
        for _ in range(SETTLE_TRIES_MAX):
            try:
                await self._ledger.put_done(self._address, done, answer.body, revision=revision)
                return _given(done, answer.body, replayed=False)
            except WrongSequence:
                # Somebody lost patience with us. They do the same: whoever is done first gives the answer.
                kept = await self._ledger.get(self._address)
            if kept.record is not None and kept.record.command_id != record.command_id:
                log.warning("a key was used anew meanwhile", extra=self._fields(record))
                return _given(done, answer.body, replayed=False)
            if kept.record is not None and kept.record.state is RecordState.DONE:
                return await self._replay(kept.record)
            revision = kept.revision
        raise _busy()

    async def _leave(self, record: Record, *, refused: bool) -> None:
        """Nothing came of it. A refusal is forgotten; after trouble the next one goes on where we were."""
        revision = self._mine.revision
        try:
            if refused:
                await self._ledger.delete(self._address, revision=revision)
            else:
                left = replace(record, held=False, holder=new_token())
                await self._ledger.put(self._address, left, revision=revision)
        except WrongSequence:
            pass  # another request has taken the key over
        except Unavailable as error:
            log.warning("a reservation was left", extra=self._fields(record) | {"error": error.message})

    async def _replay(self, done: Record) -> Once:
        return _given(done, await self._ledger.body_of(self._address, done), replayed=True)

    def _fields(self, record: Record) -> dict[str, Any]:
        return {
            "idempotency_key_hash": self._key.hashed,
            "path": self._key.path,
            "command_id": record.command_id,
            "tries": record.tries,
        }


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, PyocoError) and not isinstance(error, Unavailable | Internal)


def _taken_over(left: Record, ttl_sec: float) -> Record:
    """The same resource and the same command: only who is at it changes."""
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


def _given(done: Record, body: bytes, *, replayed: bool) -> Once:
    return Once(
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
