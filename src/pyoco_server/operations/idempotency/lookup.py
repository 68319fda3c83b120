"""The requests that a caller made with one key. The caller is in the hash: keys of others are not found."""

from __future__ import annotations

from typing import NamedTuple

from pyoco_server.errors import NotFound
from pyoco_server.operations.idempotency.key_scope import owner_of
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.store.idempotency import Record, RecordState
from pyoco_server.store.store import Store

USES_MAX = 50  # a key is meant for one request; more are not shown


class Use(NamedTuple):
    """One request with the key. `body`: of its answer; None until it is done."""

    record: Record
    body: bytes | None


async def uses_of(store: Store, caller: Caller, key: str) -> list[Use]:
    """At least one, in the order of the requests."""
    owner = owner_of(caller.tenant_id, caller.principal, key)
    uses = []
    for address, record in await store.ledger.below(owner, USES_MAX):
        is_done = record.state is RecordState.DONE
        uses.append(Use(record, await store.ledger.body_of(address, record) if is_done else None))
    if not uses:
        raise NotFound("No request of yours with this key is known. It may have expired.", err_id="")
    return sorted(uses, key=lambda use: use.record.reserved_at)
