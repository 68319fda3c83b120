"""Authenticate API keys: a look-up and one comparison, in memory.

Without the secret a client learns nothing, not even whether a key exists: an unknown key is compared with a
random record. A key that was accepted is cached by its digest for as long as its record does not change,
because most requests use a key that was used a moment ago.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.api_keys import HMAC, SALT_BYTES, ApiKeyError, HashedSecret, matches, parse_api_key
from pyoco_server.errors import Forbidden
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.identity.failed_attempts import FailedAttempts
from pyoco_server.operations.identity.slow_keys import SlowKeys
from pyoco_server.read_model.key_table import KeyTable, KnownKey
from pyoco_server.store.store import Store

_MAKE_ONE = "Check it, or make a new one: pyoco-server-admin api-key create --tenant NAME."
_RANDOM_SECRETS = (HashedSecret(HMAC, 1, secrets.token_bytes(SALT_BYTES), secrets.token_bytes(32)),)
CACHED_MAX = 1024


class _CachedKey(NamedTuple):
    known: KnownKey
    until: float
    caller: Caller


class KeyCheck:
    """Lives as long as its gateway."""

    def __init__(self, store: Store, failures: FailedAttempts | None = None) -> None:
        self._failures = FailedAttempts(0) if failures is None else failures
        self._pepper = store.config.auth_pepper
        self._slow = SlowKeys(store)
        self._cache: dict[bytes, _CachedKey] = {}
        self.table = KeyTable(store.client, store.jetstream, store.config)

    async def start(self) -> None:
        self.table.start()

    async def stop(self) -> None:
        self._slow.stop()
        await self.table.stop()

    async def caller(self, presented: bytes, peer: str = "") -> Caller:
        """Forbidden for an invalid key; Unavailable while keys cannot be checked.

        Limited after too many invalid keys from this peer.
        """
        digest = hashlib.sha256(presented).digest()
        if (caller := self.find_cached(digest)) is not None:
            return caller
        self._failures.check(peer)
        try:
            cached = await self._authenticate(presented.decode("latin-1"))
        except Forbidden:
            self._failures.note(peer)
            raise
        put_bounded(self._cache, digest, cached, CACHED_MAX)
        return cached.caller

    def find_cached(self, digest: bytes) -> Caller | None:
        """The caller whose key has this SHA-256, if the key was accepted and its record is the same."""
        cached = self._cache.get(digest)
        return cached.caller if cached is not None and self._is_current(cached) else None

    def still_good(self, caller: Caller) -> bool:
        """For streams: whether the key is still valid and has the same scopes."""
        known = self.table.find(caller.id or "")
        return known is not None and known.is_good(clock.now()) and known.scopes == caller.scopes

    def _is_current(self, cached: _CachedKey) -> bool:
        self.table.check()
        is_same = self.table.find(cached.known.record.key_id) is cached.known
        return is_same and clock.now() < cached.until

    async def _authenticate(self, presented: str) -> _CachedKey:
        try:
            key_id, secret = parse_api_key(presented)
        except ApiKeyError as error:
            raise Forbidden(f"{error} {_MAKE_ONE}") from None
        self.table.check()
        known, now = self.table.find(key_id), clock.now()
        if known is not None and known.has_slow_secret:
            matching = await self._match_slowly(secret, known, now)
            known = self.table.find(key_id)  # again: the key may have been revoked during the slow check
        else:
            matching = self._match(secret, known.secrets if known else _RANDOM_SECRETS, now)
        if matching is None or known is None:
            raise Forbidden(f"This API key is not known, or its secret is wrong. {_MAKE_ONE}")
        record = known.record
        if not known.is_good(now):
            ended = "was revoked" if record.is_revoked() else "has expired"
            raise Forbidden(f"This API key {ended}. {_MAKE_ONE}", details={"api_key_id": key_id})
        until = min(matching.until, math.inf if record.expires_at is None else record.expires_at)
        return _CachedKey(known, until, Caller(tenant_id=record.tenant_id, id=key_id, scopes=known.scopes))

    def _match(self, secret: str, secrets: Iterable[HashedSecret], now: float) -> HashedSecret | None:
        usable = (kept for kept in secrets if now < kept.until)
        return next((kept for kept in usable if matches(secret, kept, self._pepper)), None)

    async def _match_slowly(self, secret: str, known: KnownKey, now: float) -> HashedSecret | None:
        """Fast hashes first. The slow hashes of a key that is not valid are not checked."""
        fast = self._match(secret, (kept for kept in known.secrets if not kept.is_slow), now)
        if fast is not None or not known.is_good(now):
            return fast
        for kept in known.secrets:
            if kept.is_slow and now < kept.until and await self._slow.fits(secret, kept, known):
                return kept
        return None
