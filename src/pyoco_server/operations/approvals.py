"""What waits for somebody's answer, in pages, as the read model has it when it has caught up with the log."""

from __future__ import annotations

from pyoco_server.cursors import Scope, TokenRefused, seal, unseal
from pyoco_server.errors import Invalid
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.read_model.waits import OpenWait, WaitPlace
from pyoco_server.store.store import Store

CURSOR = "approvals"


async def list_approvals(
    store: Store, read_model: ReadModel, *, tenant_id: str | None, limit: int, cursor: str | None
) -> tuple[list[OpenWait], str | None]:
    """The longest waiting first, and the cursor of the next page; None: there are no more."""
    secret = await store.secrets.for_tokens()
    await read_model.catch_up()
    scope: Scope = {"tenant": tenant_id, "log": read_model.log_created}
    found = read_model.runs.waiting(tenant_id, limit + 1, _place(secret, scope, cursor))
    shown = found[:limit]
    goes_on = seal(secret, CURSOR, scope, shown[-1][0]) if len(found) > limit else None
    return [wait for _, wait in shown], goes_on


def _place(secret: bytes, scope: Scope, cursor: str | None) -> WaitPlace | None:
    if cursor is None:
        return None
    try:
        return WaitPlace(*unseal(secret, CURSOR, scope, cursor))
    except TokenRefused:
        message = "cursor is not one of this list: pass it on unchanged."
        problem = {"loc": ["query", "cursor"], "msg": message, "type": "value_error"}
        raise Invalid(message, details=[problem]) from None
