"""Unused tickets: one key each, in the bucket of the leases, that expires. A ticket is taken once.

The key is the hash of the ticket: stored data give no access.
"""

from __future__ import annotations

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket

# Longer than a ticket is valid, because clocks of gateways differ.
KEPT = "5m"


class StoredTicket(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    expires_at: float
    tenant_id: str | None = None
    caller_id: str | None = None
    scopes: list[str] | None = None
    audiences: list[str] | None = None
    issuer: str | None = None
    signed_by: str | None = None
    good_until: float | None = None


class Tickets:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.leases_kv_bucket)

    async def put(self, hashed: str, ticket: StoredTicket) -> None:
        await self._bucket.put(_key(hashed), msgspec.json.encode(ticket), revision=0, ttl=KEPT)

    async def find(self, hashed: str) -> tuple[StoredTicket | None, int]:
        entry = await self._bucket.get_at_leader(_key(hashed))
        ticket = msgspec.json.decode(entry.value, type=StoredTicket) if entry.value else None
        return ticket, entry.revision

    async def take(self, hashed: str, *, revision: int) -> bool:
        """Whether this caller got the ticket. Of several callers one gets it."""
        try:
            await self._bucket.delete(_key(hashed), revision=revision, ttl=KEPT)
        except WrongSequence:
            return False
        return True


def _key(hashed: str) -> str:
    return f"ticket.{hashed}"
