"""Tickets: the right of a caller to open one address once, within a minute, without a header.

`EventSource` and `WebSocket` in browsers send no headers, and a key in a URL would stay in logs.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.errors import Forbidden, Invalid
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.store.store import Store
from pyoco_server.store.tickets import StoredTicket

GOOD_FOR_SEC = 60.0
TICKET_BYTES = 32
PATH_CHARS_MAX = 1_024


class Issued(NamedTuple):
    ticket: str
    expires_at: float


async def issue(store: Store, caller: Caller, path: str) -> Issued:
    if not path.startswith("/") or len(path) > PATH_CHARS_MAX or set(path) & set("?#"):
        message = "path is what follows the host of the address, from its first slash, without a query."
        raise Invalid.at(["path"], message)
    issued = Issued(secrets.token_urlsafe(TICKET_BYTES), clock.now() + GOOD_FOR_SEC)
    stored = StoredTicket(
        path=path,
        expires_at=issued.expires_at,
        tenant_id=caller.tenant_id,
        caller_id=caller.id,
        scopes=None if caller.scopes is None else sorted(caller.scopes),
        audiences=None if caller.audiences is None else sorted(caller.audiences),
        issuer=caller.issuer,
        signed_by=caller.signed_by,
        good_until=caller.good_until if math.isfinite(caller.good_until) else None,
    )
    await store.tickets.put(_hashed(issued.ticket), stored)
    return issued


async def redeem(store: Store, ticket: str, path: str) -> Caller:
    """The caller of the ticket. Forbidden if it is unknown, used, expired, or for another address."""
    hashed = _hashed(ticket)
    stored, revision = await store.tickets.find(hashed)
    is_good = stored is not None and stored.path == path and clock.now() < stored.expires_at
    if stored is None or not is_good or not await store.tickets.take(hashed, revision=revision):
        raise Forbidden(
            f"This ticket is not good here: one opens one address, once, within {GOOD_FOR_SEC:g} s. "
            "Get a new one: POST /tickets.",
            err_id="",
        )
    return Caller(
        tenant_id=stored.tenant_id,
        id=stored.caller_id,
        scopes=None if stored.scopes is None else frozenset(stored.scopes),
        audiences=None if stored.audiences is None else frozenset(stored.audiences),
        issuer=stored.issuer,
        signed_by=stored.signed_by,
        good_until=math.inf if stored.good_until is None else stored.good_until,
    )


def _hashed(ticket: str) -> str:
    return hashlib.sha256(ticket.encode("utf-8", "replace")).hexdigest()
