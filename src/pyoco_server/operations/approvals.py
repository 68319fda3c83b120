"""List open waits and given answers, in pages, from the read model after it has caught up with the log."""

from __future__ import annotations

from pyoco_server.cursors import Scope, TokenRefused, seal, unseal
from pyoco_server.errors import Invalid
from pyoco_server.read_model.answers import NEWEST, AnswerPlace, GivenAnswer
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.read_model.waits import OpenWait, WaitPlace
from pyoco_server.store.store import Store

CURSOR = "approvals"
HISTORY_CURSOR = "answers"


async def list_approvals(
    store: Store, read_model: ReadModel, *, tenant_id: str | None, limit: int, cursor: str | None
) -> tuple[list[OpenWait], str | None]:
    """The oldest waits first, and the cursor of the next page; None after the last page."""
    secret = await store.secrets.for_tokens()
    await read_model.catch_up()
    scope: Scope = {"tenant": tenant_id, "log": read_model.log_created}
    found = read_model.runs.waiting(tenant_id, limit + 1, _place(secret, scope, cursor))
    shown = found[:limit]
    next_cursor = seal(secret, CURSOR, scope, shown[-1][0]) if len(found) > limit else None
    return [wait for _, wait in shown], next_cursor


async def list_answers(
    store: Store, read_model: ReadModel, *, tenant_id: str | None, limit: int, cursor: str | None
) -> tuple[list[GivenAnswer], str | None]:
    """The latest answers first, and the cursor of the next page; None after the last page."""
    secret = await store.secrets.for_tokens()
    await read_model.catch_up()
    scope: Scope = {"tenant": tenant_id, "log": read_model.log_created}
    place = _unsealed(secret, HISTORY_CURSOR, scope, cursor)
    before = NEWEST if place is None else AnswerPlace(*place)
    found = read_model.runs.answers(tenant_id, limit + 1, before)
    shown = found[:limit]
    next_cursor = seal(secret, HISTORY_CURSOR, scope, shown[-1][0]) if len(found) > limit else None
    return [answer for _, answer in shown], next_cursor


def _place(secret: bytes, scope: Scope, cursor: str | None) -> WaitPlace | None:
    place = _unsealed(secret, CURSOR, scope, cursor)
    return None if place is None else WaitPlace(*place)


def _unsealed(secret: bytes, name: str, scope: Scope, cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    try:
        seq, number = unseal(secret, name, scope, cursor)
        return seq, number
    except TokenRefused:
        message = "cursor is not one of this list: pass it on unchanged."
        raise Invalid.at(["query", "cursor"], message) from None
