"""A request with an idempotency key whose gateway ends after the effect and before the answer is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from pyoco_server.errors import Unavailable
from pyoco_server.operations.idempotency.key_scope import key_for
from pyoco_server.operations.idempotency.keyed_request import KeyedRequest, Reservation
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.store.store import Store


async def interrupted(
    store: Store, path: str, key: str, asked: bytes, have_effect: Callable[[Reservation], Awaitable[object]]
) -> None:
    """Leaves the reservation as a gateway leaves it that loses its broker."""
    with suppress(Unavailable):
        async with KeyedRequest(store, key_for(ANONYMOUS, "POST", path, key), asked) as keyed:
            await have_effect(keyed.reservation)
            raise Unavailable("The broker cannot be reached.")
