"""The bucket of rechecks: strategies and their profiles, requests, and the outcome of each batch.

Requests and outcomes are created once and never changed; a second writer gets the stored one. Keys begin with
the kind and the tenant. One consumer of the bucket feeds the index of each gateway.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream, PubAck, StoredMessage
from pyoco_server.jetstream.errors import AnswerLost, WrongSequence
from pyoco_server.jetstream.kv import Bucket, is_deletion
from pyoco_server.names import is_run_id
from pyoco_server.recheck.catalogue import Strategy
from pyoco_server.recheck.records import BatchOutcome, Request
from pyoco_server.recheck.thresholds import Rule

# An index that is older than this is filled again, because it may have missed a deletion.
MARK_KEPT = "48h"
CREATE_TRIES_MAX = 3
IN_FLIGHT_MAX = 64

RuleBook = dict[str, dict[str, Rule]]

_encode = msgspec.json.Encoder().encode
decode_strategy = msgspec.json.Decoder(Strategy).decode
decode_profiles = msgspec.json.Decoder(RuleBook).decode
decode_request = msgspec.json.Decoder(Request).decode
decode_outcome = msgspec.json.Decoder(BatchOutcome).decode


class RecheckRecordKind(StrEnum):
    STRATEGY = "strategy"
    PROFILES = "profiles"
    REQUEST = "request"
    OUTCOME = "outcome"


class RecordPosition(NamedTuple):
    """Where a message of the bucket belongs. `name`: of the strategy or request."""

    kind: RecheckRecordKind
    tenant: str
    name: str


def position_of(key: str) -> RecordPosition | None:
    """None for a key of another kind."""
    kind, _, rest = key.partition(".")
    tenant, _, name = rest.partition(".")
    if kind not in tuple(RecheckRecordKind) or not tenant:
        return None
    return RecordPosition(
        RecheckRecordKind(kind), tenant, _named(name) if kind == RecheckRecordKind.STRATEGY else name
    )


class Rechecks:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.rechecks_kv_bucket)
        self._kept = f"{max(1, int(config.recheck_kept_sec))}s"

    async def put_strategy(self, tenant: str, strategy: Strategy) -> None:
        """The whole entry: the last write wins."""
        await self._bucket.put(_strategy_key(tenant, strategy.id), _encode(strategy))

    async def put_strategies(self, tenant: str, strategies: Iterable[Strategy]) -> None:
        """Many, with several requests in flight."""
        under_way: deque[Awaitable[PubAck]] = deque()
        for one in strategies:
            if len(under_way) >= IN_FLIGHT_MAX:
                await under_way.popleft()
            under_way.append(self._bucket.put_soon(_strategy_key(tenant, one.id), _encode(one)))
        await asyncio.gather(*map(_wait_for_ack, under_way))

    async def delete_strategy(self, tenant: str, strategy_id: str) -> None:
        await self._bucket.delete(_strategy_key(tenant, strategy_id), ttl=MARK_KEPT)

    async def strategies(self, tenant: str) -> dict[str, Strategy]:
        """All strategies of a tenant, read from the broker: for processes without an index."""
        messages = await self._bucket.after(f"{RecheckRecordKind.STRATEGY}.{tenant}.*")
        found = (decode_strategy(message.data) for message in messages if not is_deletion(message))
        return {strategy.id: strategy for strategy in found}

    async def profiles(self, tenant: str) -> RuleBook:
        entry = await self._bucket.get_at_leader(f"{RecheckRecordKind.PROFILES}.{tenant}")
        return decode_profiles(entry.value) if entry.value else {}

    async def put_profiles(self, tenant: str, profiles: Mapping[str, Mapping[str, Rule]]) -> None:
        await self._bucket.put(f"{RecheckRecordKind.PROFILES}.{tenant}", _encode(profiles))

    async def create_request(self, request: Request) -> Request:
        """The stored request: this one, or that of an earlier try."""
        key = f"{RecheckRecordKind.REQUEST}.{request.tenant}.{request.request_id}"
        stored = await self._create(key, _encode(request))
        return request if stored is None else decode_request(stored.data)

    async def request(self, tenant: str, request_id: str) -> Request | None:
        """Confirmed by a majority, for decisions."""
        if not is_run_id(request_id):
            return None  # a wildcard in its place would find another one
        entry = await self._bucket.get_confirmed(f"{RecheckRecordKind.REQUEST}.{tenant}.{request_id}")
        return decode_request(entry.value) if entry.value else None

    async def create_outcome(self, tenant: str, outcome: BatchOutcome) -> bool:
        """Whether this outcome was stored; False: another one was there."""
        key = f"{RecheckRecordKind.OUTCOME}.{tenant}.{outcome.request_id}.{outcome.batch}"
        return await self._create(key, _encode(outcome)) is None

    async def _create(self, key: str, value: bytes) -> StoredMessage | None:
        """None if this value is stored, else the existing message."""
        for _ in range(CREATE_TRIES_MAX):
            try:
                await self._bucket.put(key, value, revision=0, ttl=self._kept)
                return None
            except AnswerLost:
                continue  # at this expected sequence it is stored once, or refused
            except WrongSequence:
                stored = await self._bucket.message(key)
                if stored is not None:
                    return None if stored.data == value else stored
        raise Unavailable("The broker did not say whether this was stored. Try again.")


def _strategy_key(tenant: str, strategy_id: str) -> str:
    return f"{RecheckRecordKind.STRATEGY}.{tenant}.{_token(strategy_id)}"


def _token(name: str) -> str:
    """An id may have dots where a subject must not."""
    return base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()


def _named(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


async def _wait_for_ack(publishing: Awaitable[PubAck]) -> PubAck:
    return await publishing
