"""A request with an idempotency key whose effect is a function, as the tests of these requests write it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import (
    KeyedAnswer,
    KeyedRequest,
    RecordedAnswer,
    Reservation,
)
from pyoco_server.store.store import Store

Do = Callable[[Reservation], Awaitable[RecordedAnswer]]


async def once(
    store: Store,
    key: IdempotencyKey,
    asked: bytes,
    do: Do,
    *,
    resource_id: str | None = None,
    needs_room: bool = False,
) -> KeyedAnswer:
    async with KeyedRequest(store, key, asked, resource_id=resource_id, needs_room=needs_room) as request:
        if request.earlier is not None:
            return request.earlier
        return await request.remember(await do(request.reservation))
