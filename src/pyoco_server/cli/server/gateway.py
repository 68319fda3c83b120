"""The gateway inside `pyoco-server up`: uvicorn on a socket that is already open, without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyoco_server.broker import EmbeddedBroker
from pyoco_server.cli.server.listening import Listening
from pyoco_server.config import NatsBackendConfig
from pyoco_server.supervision import contain

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from pyoco_server.http_api.gateway import Gateway

READY_PAUSE_SEC = (0.005, 0.1)
GRACE_SEC = 3  # for requests in flight at the stop
WS_FRAME_BYTES_MAX = 65_536  # refused before they are buffered; the face has the same limit in any server


class GatewayServer:
    """`ended` is set when it no longer serves, after a stop or an error."""

    def __init__(
        self, config: NatsBackendConfig, listening: Listening, *, broker: EmbeddedBroker | None
    ) -> None:
        self._config = config
        self._listening = listening
        self._broker = broker
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._gateway: Gateway | None = None
        self._given_up = False
        self.ended = asyncio.Event()
        self.reasons: list[str] = []

    def start(self) -> None:
        """The gateway is imported here: that takes a third of a second, in which the worker starts."""
        from pyoco_server.http_api import create_app

        app = create_app(self._config, broker=self._broker)
        self._gateway = app.state.gateway
        self._server = _server_for(app, debug=self._config.log_level == "DEBUG")
        self._serving = asyncio.create_task(self._serve(self._server))

    async def stop(self) -> None:
        """Accept no more requests, finish those in flight, close. Callable twice, and before start."""
        self.give_up_waiting()
        if self._server is not None and self._serving is not None:
            if self._gateway is not None:
                self._gateway.streams.end()  # the server would wait for them
            self._server.should_exit = True
            await self._serving

    async def wait_until_ready(self) -> bool:
        """True when `/ready` would answer ready; False after `give_up_waiting`. Requests would be logged."""
        pause_sec, longest_sec = READY_PAUSE_SEC
        while not self._given_up:
            if self._server is not None and self._gateway is not None and self._server.started:
                standing = self._gateway.standing()
                if standing["ready"]:
                    return True
                self.reasons = standing["reasons"]
            await asyncio.sleep(pause_sec)
            pause_sec = min(pause_sec * 1.5, longest_sec)
        return False

    def give_up_waiting(self) -> None:
        self._given_up = True

    async def _serve(self, server: uvicorn.Server) -> None:
        """An error is logged; `ended` then makes `up` stop the other parts in order."""
        try:
            with contain("gateway", "the gateway failed"):
                await server.serve(sockets=[self._listening.sock])
        finally:
            self.ended.set()


def _server_for(app: ASGIApp, *, debug: bool) -> uvicorn.Server:
    import uvicorn

    from pyoco_server.http_api.server.protocol import HttpProtocol

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # `up` handles signals: it stops more than the gateway

    settings = uvicorn.Config(
        app,
        http=HttpProtocol,
        log_config=None,  # logging is already configured
        access_log=debug,  # a line per request costs as much as the request
        server_header=False,
        ws_max_size=WS_FRAME_BYTES_MAX,
        timeout_graceful_shutdown=GRACE_SEC,
    )
    return Server(settings)
