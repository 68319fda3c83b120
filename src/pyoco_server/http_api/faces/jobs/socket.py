"""`WS /jobs/{id}/ws`: the status and output of a job, both ways. `frames` has the frames.

Two tasks: one receives frames, one sends changes. Before `subscribe` only the status is sent; after the end
of a subscribed job, the socket is closed.
"""

from __future__ import annotations

import asyncio
import contextlib

from starlette.websockets import WebSocket, WebSocketDisconnect

from pyoco_server import clock
from pyoco_server.errors import PyocoError
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.jobs import frames, request_context
from pyoco_server.http_api.faces.jobs.errors import TABLE, job_not_found
from pyoco_server.http_api.faces.jobs.log_routes import shown
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import caller_of, limit_key_of
from pyoco_server.http_api.middleware.refusal_log import note_refusal
from pyoco_server.http_api.responses.error_table import retry_header
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Content, Operation
from pyoco_server.http_api.routing.params import TICKET
from pyoco_server.http_api.streaming import sse
from pyoco_server.operations.identity.callers import Scope
from pyoco_server.operations.logs.cursors import LogPosition, LogPositions
from pyoco_server.operations.logs.follower import LogFollower
from pyoco_server.operations.logs.views import LogView
from pyoco_server.operations.runs import cancel

NORMAL, GOING_AWAY, UNREADABLE, TOO_BIG = 1000, 1001, 1003, 1009
# The broker has lost lines, perhaps some that were sent: the client reconnects and reads from the start.
SERVICE_RESTART = 1012
# Errors of sending to a client that has disconnected.
_GONE = (WebSocketDisconnect, TimeoutError, OSError, RuntimeError)


async def job_socket(socket: WebSocket) -> None:
    try:
        gateway = ready_gateway(socket)
        leave = gateway.streams.concurrency.enter(limit_key_of(socket))
    except PyocoError as error:
        await _deny(socket, error)
        return
    try:
        await _serve(socket, gateway)
    finally:
        leave()


async def _serve(socket: WebSocket, gateway: Gateway) -> None:
    try:
        with job_not_found():
            job_id = request_context.job_id_of(socket)
            places = LogPositions(await gateway.store.secrets.for_tokens(), job_id)
            view = await gateway.log_views.subscribe(job_id, tenant_id=caller_of(socket).tenant_id)
    except PyocoError as error:
        await _deny(socket, error)
        return
    try:
        await socket.accept()
        await _Talk(socket, gateway, job_id, view, places).run()
    finally:
        gateway.log_views.unsubscribe(job_id, view)


_SOCKET = """The server sends `status`, `log`, `heartbeat`, `error` and `end` frames; the client `subscribe`
(`sinceToken`, `logs`), `cancel` and `ping`. Before `subscribe`, only `status` is sent."""
OPERATIONS = [
    Operation(
        "GET",
        "/jobs/{job_id}/ws",
        None,
        "Status and output of a job as a WebSocket",
        {101: Content("A WebSocket")},
        [request_context.JOB_ID, TICKET],
        errors=[404, 429],
        description=_SOCKET,
        name="job_socket",
        socket=job_socket,
    )
]


class _Talk:
    def __init__(
        self, socket: WebSocket, gateway: Gateway, job_id: str, view: LogView, places: LogPositions
    ) -> None:
        self._socket = socket
        self._gateway = gateway
        self._job_id = job_id
        self._view = view
        self._places = places
        self._wakeup = asyncio.Event()
        self._follower: LogFollower | None = None
        self._subscribed: frames.Subscribe | None = None
        self._last_status = b""
        self._close_code: int | None = None

    async def run(self) -> None:
        wake = self._wakeup.set
        self._view.run_view.attach(wake)
        self._gateway.streams.enter(wake)
        receiving = asyncio.ensure_future(self._receive_frames())
        receiving.add_done_callback(lambda _: wake())
        try:
            await self._send_changes(receiving)
            if not receiving.done() or self._close_code is not None:
                await self._socket.close(self._close_code or NORMAL)
        except _GONE:
            pass  # the client has disconnected or does not read; it can resume with its last token
        finally:
            receiving.cancel()
            with contextlib.suppress(asyncio.CancelledError, *_GONE):
                await receiving
            self._view.run_view.detach(wake)
            self._gateway.streams.leave(wake)
            self._unfollow()

    async def _send_changes(self, receiving: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        heartbeat_at = loop.time() + sse.KEEP_ALIVE_SEC
        while not receiving.done():
            self._wakeup.clear()
            if self._gateway.streams.ended:
                self._close_code = GOING_AWAY
                return
            if self._follower is not None and self._follower.has_to_begin_again:
                self._close_code = SERVICE_RESTART
                return
            batch = self._next()
            if not batch and self._is_over:
                await self._send(frames.end_frame(self._last_status))
                return
            if not batch and self._subscribed is not None and loop.time() >= heartbeat_at:
                batch = [frames.heartbeat_frame(clock.now())]
            for frame in batch:
                await self._send(frame)
            if batch:
                heartbeat_at = loop.time() + sse.KEEP_ALIVE_SEC
            else:
                await _wait_until(self._wakeup, heartbeat_at if self._subscribed is not None else None)

    @property
    def _is_over(self) -> bool:
        if self._subscribed is None or not self._view.run_view.stored.run.is_terminal:
            return False
        return self._follower is None or self._follower.is_over

    def _next(self) -> list[bytes]:
        """The status if it has changed, then lines of output. The final status comes after the last line."""
        run_view = self._view.run_view
        has_lines = self._follower is not None and not self._follower.is_over
        if not self._last_status or not (has_lines and run_view.stored.run.is_terminal):
            status = run_view.shown(("log stream", shown), shown)
            if status != self._last_status:
                self._last_status = status
                return [frames.status_frame(status)]
        batch = self._follower.take() if self._follower is not None else None
        if batch is None:
            return []
        seq, token = batch.chunk.seq, self._places.token
        return [
            frames.log_frame(token(LogPosition(number, seq)), line)
            for number, line in enumerate(batch.lines, batch.begin)
        ]

    async def _receive_frames(self) -> None:
        """Receive frames until the client disconnects or sends one that cannot be answered."""
        while (message := await self._socket.receive())["type"] == "websocket.receive":
            text = message.get("text")
            if text is None:
                self._close_code = UNREADABLE
                return
            if len(text.encode()) > frames.FRAME_BYTES_MAX:
                self._close_code = TOO_BIG
                return
            try:
                await self._handle(frames.client_frame(text))
            except frames.NotJson:
                self._close_code = UNREADABLE
                return
            except PyocoError as error:
                await self._send(frames.error_frame(error))

    async def _handle(self, frame: frames.ClientFrame) -> None:
        match frame:
            case frames.Subscribe():
                self._subscribe(frame)
            case frames.Ping():
                await self._send(frames.heartbeat_frame(clock.now()))
            case frames.Cancel():
                caller = caller_of(self._socket)
                caller.require(Scope.RUNS_WRITE)
                await cancel.cancel_run(
                    self._gateway.store, self._job_id, by=caller.principal, tenant_id=caller.tenant_id
                )

    def _subscribe(self, asked: frames.Subscribe) -> None:
        after = LogPosition() if asked.since_token is None else self._places.opened(asked.since_token)
        self._unfollow()
        self._subscribed = asked
        if asked.logs:
            self._follower = LogFollower(self._gateway.store, self._job_id, self._view, after)
            self._follower.attach(self._wakeup.set)
        self._wakeup.set()

    def _unfollow(self) -> None:
        if self._follower is not None:
            self._follower.detach()
            self._follower = None

    async def _send(self, frame: bytes) -> None:
        async with asyncio.timeout(sse.SLOW_READER_SEC):
            await self._socket.send_text(frame.decode())


async def _wait_until(wakeup: asyncio.Event, until: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await wakeup.wait()


async def _deny(socket: WebSocket, error: PyocoError) -> None:
    note_refusal(socket.scope, error)
    status = TABLE.status_of(error)
    answer = json_answer(TABLE.body(error, "en"), status, retry_header(error, status))
    await socket.send_denial_response(answer)
