"""Work for a request that is cancelled when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Raises ClientDisconnect when the client disconnects first."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(until_disconnected(request.receive))
    try:
        await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        leaving.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait([doing])


async def until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
