"""From an API key to its caller: a look-up and one comparison, in memory.

Whoever does not have the secret learns nothing here, not even whether there is such a key: an unknown one is
compared like any other, with a record that nothing fits. A key that has proved itself is remembered by its
digest, for as long as its record is the same: most requests come with a key that was here a moment ago.
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
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.identity.failed_attempts import FailedAttempts
from pyoco_server.operations.identity.slow_keys import SlowKeys
from pyoco_server.read_model.key_table import KeyTable, KnownKey
from pyoco_server.store.store import Store

_MAKE_ONE = "Check it, or make a new one: pyoco-server-admin api-key create --tenant NAME."
_NOBODYS = (HashedSecret(HMAC, 1, secrets.token_bytes(SALT_BYTES), secrets.token_bytes(32)),)
REMEMBERED_MAX = 1024


class _Proven(NamedTuple):
    known: KnownKey
    until: float
    caller: Caller


class KeyCheck:
    """Lives as long as its gateway."""

    def __init__(self, store: Store, failures: FailedAttempts | None = None) -> None:
        self._failures = FailedAttempts(0) if failures is None else failures
        self._pepper = store.config.auth_pepper
        self._slow = SlowKeys(store)
        self._proven: dict[bytes, _Proven] = {}
        self.table = KeyTable(store.client, store.jetstream, store.config)

    async def start(self) -> None:
        self.table.start()

    async def stop(self) -> None:
        self._slow.stop()
        await self.table.stop()

    async def caller(self, presented: bytes, peer: str = "") -> Caller:
        """Forbidden for a key that is not, or no longer, good; Unavailable while we cannot know.

        Limited when too many that were not good came from this peer.
        """
        digest = hashlib.sha256(presented).digest()
        proven = self._proven.get(digest)
        if proven is not None and self._still_holds(proven):
            return proven.caller
        self._failures.check(peer)
        try:
            proven = await self._proved(presented.decode("latin-1"))
        except Forbidden:
            self._failures.note(peer)
            raise
        self._remember(digest, proven)
        return proven.caller

    def still_good(self, caller: Caller) -> bool:
        """For a stream that began with a good key: it still is one, and may do what it might then."""
        known = self.table.find(caller.id or "")
        return known is not None and known.is_good(clock.now()) and known.scopes == caller.scopes

    def _still_holds(self, proven: _Proven) -> bool:
        self.table.check()
        is_same = self.table.find(proven.known.record.key_id) is proven.known
        return is_same and clock.now() < proven.until

    def _remember(self, digest: bytes, proven: _Proven) -> None:
        self._proven.pop(digest, None)
        while len(self._proven) >= REMEMBERED_MAX:
            del self._proven[next(iter(self._proven))]
        self._proven[digest] = proven

    async def _proved(self, presented: str) -> _Proven:
        try:
            key_id, secret = parse_api_key(presented)
        except ApiKeyError as error:
            raise Forbidden(f"{error} {_MAKE_ONE}") from None
        self.table.check()
        known, now = self.table.find(key_id), clock.now()
        if known is not None and known.has_slow_secret:
            fitting = await self._fitting_slowly(secret, known, now)
            known = self.table.find(key_id)  # that took its time, in which it may have been revoked
        else:
            fitting = self._fitting(secret, known.secrets if known else _NOBODYS, now)
        if fitting is None or known is None:
            raise Forbidden(f"This API key is not known, or its secret is wrong. {_MAKE_ONE}")
        record = known.record
        if not known.is_good(now):
            ended = "was revoked" if record.is_revoked() else "has expired"
            raise Forbidden(f"This API key {ended}. {_MAKE_ONE}", details={"api_key_id": key_id})
        until = min(fitting.until, math.inf if record.expires_at is None else record.expires_at)
        return _Proven(known, until, Caller(tenant_id=record.tenant_id, id=key_id, scopes=known.scopes))

    def _fitting(self, secret: str, secrets: Iterable[HashedSecret], now: float) -> HashedSecret | None:
        usable = (kept for kept in secrets if now < kept.until)
        return next((kept for kept in usable if matches(secret, kept, self._pepper)), None)

    async def _fitting_slowly(self, secret: str, known: KnownKey, now: float) -> HashedSecret | None:
        """Fast ones first. The slow ones of a key that has ended are not worth the time."""
        fast = self._fitting(secret, (kept for kept in known.secrets if not kept.is_slow), now)
        if fast is not None or not known.is_good(now):
            return fast
        for kept in known.secrets:
            if kept.is_slow and now < kept.until and await self._slow.fits(secret, kept, known):
                return kept
        return None
