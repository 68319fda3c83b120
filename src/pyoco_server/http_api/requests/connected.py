"""Work for a request that is cancelled when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

T = TypeVar("T")

# Most work is over sooner: then no task has to watch the connection.
WATCH_AFTER_SEC = 0.01


async def while_connected(request: Request, work: Coroutine[object, object, T]) -> T:
    """Raises ClientDisconnect when the client disconnects first. Then the work is cancelled.

    The connection is watched after `WATCH_AFTER_SEC`. A disconnect before that is noticed then.
    """
    loop = asyncio.get_running_loop()
    doing = asyncio.current_task(loop)
    assert doing is not None
    leaving: asyncio.Task[None] | None = None

    def watch() -> None:
        nonlocal leaving
        leaving = loop.create_task(until_disconnected(request.receive))
        leaving.add_done_callback(stop)

    def stop(left: asyncio.Task[None]) -> None:
        if not left.cancelled():
            left.exception()  # retrieved: a receiver that fails is a client that has left
            doing.cancel()

    timer = loop.call_later(WATCH_AFTER_SEC, watch)
    try:
        return await work
    except asyncio.CancelledError:
        has_left = leaving is not None and leaving.done() and not leaving.cancelled()
        if has_left and not doing.uncancel():  # otherwise the request itself is cancelled too
            raise ClientDisconnect from None
        raise
    finally:
        timer.cancel()
        if leaving is not None:
            leaving.remove_done_callback(stop)
            leaving.cancel()


async def until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
