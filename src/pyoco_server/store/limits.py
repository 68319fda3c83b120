"""Rate limits, counted in the broker: one token bucket per client for all gateways.

Each request writes the level by compare-and-set. The last known level is cached: while a client uses one
gateway a request costs one write, and an empty bucket is refused without one, because other gateways can only
have taken more.
"""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import AnswerLost, WrongSequence
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.token_bucket import BucketLevel, Taken, take

# A bucket that was not used for a minute is full, so it may expire.
LEVEL_KEPT = "120s"
TAKE_TRIES_MAX = 20
KNOWN_MAX = 10_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(BucketLevel).decode


class _Known:
    __slots__ = ("level", "one_at_a_time", "revision")

    def __init__(self) -> None:
        self.level: BucketLevel | None = None
        self.revision = 0
        self.one_at_a_time = asyncio.Lock()


class RateLimits:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.limits_kv_bucket)
        self._known: dict[str, _Known] = {}

    async def take(self, *whose: str, per_minute: int) -> Taken:
        """One token of the bucket of this name; `allowed` says whether there was one."""
        key = hashlib.sha256(msgspec.json.encode(whose)).hexdigest()
        known = self._remember(key)
        async with known.one_at_a_time:
            for _ in range(TAKE_TRIES_MAX):
                level, taken = take(known.level, per_minute, clock.now())
                if not taken.allowed:
                    return taken
                try:
                    known.revision = await self._bucket.put(
                        key, _encode(level), revision=known.revision, ttl=LEVEL_KEPT
                    )
                    known.level = level
                    return taken
                except (WrongSequence, AnswerLost):
                    await self._read(key, known)
        raise Unavailable("Too many gateways count at once. Try again.")

    async def _read(self, key: str, known: _Known) -> None:
        entry = await self._bucket.get_at_leader(key)
        known.level = _decode(entry.value) if entry.value else None
        known.revision = entry.revision

    def _remember(self, key: str) -> _Known:
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known = {one: kept for one, kept in self._known.items() if kept.one_at_a_time.locked()}
            known = self._known[key] = _Known()
        return known
