"""What became of a caller's own idempotency keys. Others' cannot be asked for: the caller is in the hash."""

from __future__ import annotations

import msgspec

from pyoco_server.errors import NotFound
from pyoco_server.operations.idempotency.key_scope import owner_of
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.store.idempotency import RecordState
from pyoco_server.store.store import Store

USES_MAX = 50  # one key is meant for one request; more than these are not shown


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """One request that came with the key. `status` and `body` are None until it is done."""

    method: str
    path: str
    digest: str
    state: RecordState
    resource_id: str
    status: int | None
    body: bytes | None
    event_ids: list[str]
    reserved_at: float
    expires_at: float


async def uses_of(store: Store, caller: Caller, key: str) -> list[Use]:
    """At least one, the first request first."""
    owner = owner_of(caller.tenant_id, caller.principal, key)
    uses = []
    for address, record in await store.ledger.below(owner, USES_MAX):
        is_done = record.state is RecordState.DONE
        uses.append(
            Use(
                method=record.method,
                path=record.path,
                digest=record.digest,
                state=record.state,
                resource_id=record.resource_id,
                status=record.status if is_done else None,
                body=await store.ledger.body_of(address, record) if is_done else None,
                event_ids=record.event_ids,
                reserved_at=record.reserved_at,
                expires_at=record.expires_at,
            )
        )
    if not uses:
        raise NotFound("No request of yours with this key is known. It may have expired.", err_id="")
    return sorted(uses, key=lambda use: use.reserved_at)
