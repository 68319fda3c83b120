"""The first seconds of a gateway: requests wait until it can serve, bounded by PYOCO_START_WAIT_SEC.

The bound counts from the start of the gateway, not from each request: once it is over, a broker that is
still away means 503 at once. How many requests can wait is bounded by the number of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Scope

from pyoco_server.http_api.middleware.addresses import is_public, path_of
from pyoco_server.supervision import start_task


class StartWait:
    """All waiting requests share one task, so none has its own timer."""

    def __init__(self, wait_sec: float) -> None:
        self._wait_sec = wait_sec
        self._until: asyncio.Task[None] | None = None
        # Read by every request: a plain attribute.
        self.is_over = True

    def begin(self, serving: Callable[[], Awaitable[None]]) -> None:
        """`serving` ends when the gateway can serve, or will not be able to without a restart."""
        self.is_over = False
        self._until = start_task(self._run(serving), "wait for the start")

    def end(self) -> None:
        if self._until is not None:
            self._until.cancel()

    async def wait(self, scope: Scope) -> None:
        """Returns at once for public paths. Afterwards the request goes on; routes check readiness."""
        path = path_of(scope)
        if self._until is None or is_public(path):
            return
        await asyncio.wait([self._until])

    async def _run(self, serving: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self._wait_sec):
                await serving()
        except TimeoutError:
            pass  # from now on requests are answered 503 while it lasts
        finally:
            self.is_over = True
