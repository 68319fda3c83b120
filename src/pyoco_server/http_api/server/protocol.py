"""uvicorn's HTTP protocol, with limits on what a client sends, and responses in one write.

uvicorn reads headers of any size for any time: a few hundred silent connections, or one endless header, would
stop a gateway without any credentials. Here received bytes are counted, and `connections` ends what takes too
long. uvicorn also parses everything that was received at once: 256 KiB of short requests become thousands of
waiting requests. Here received bytes are parsed in slices, and not while a request waits for the response
before its own. Head and body of a response are written together (`head_buffer`).

`pyoco-server up` uses this protocol. Under plain uvicorn the application replaces the protocol that it
extends (`install`). `uvicorn --http h11` and other servers have none of this.
"""

from __future__ import annotations

import asyncio
from functools import cache
from http import HTTPStatus
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.responses.error_table import RETRY_AFTER_SEC
from pyoco_server.http_api.server.connections import REFUSED_OPEN_MAX, Connections
from pyoco_server.http_api.server.head_buffer import HeadBufferingTransport
from pyoco_server.ids import new_ulid

# In the state of the application: its `Connections`.
STATE = "pyoco.connections"
# A refused connection is kept open this long: closed at once with unread bytes, it would lose the response.
LINGER_SEC = 1.0

# Parsed at once: few enough requests to wait in memory; more where it is a body.
SLICE_BYTES = 2_048
SLICE_OF_BODY_BYTES = 16_384
PIPELINED_MAX = 128  # requests that wait for an earlier response; a slice has no more
HELD_BYTES_MAX = 1_048_576  # received and not yet parsed
# The WebSocket library refuses a handshake with a longer URL or header: its lines have at most 8 KiB.
SOCKET_LINE_BYTES_MAX = 8_100

# Phases of a connection. ANSWER: the request is complete, the response is not.
HEAD, BODY, ANSWER, IDLE, REFUSED, UPGRADED = range(6)

_SENTENCES = {
    400: "Invalid HTTP request received.",
    408: "The request did not come in time. Send it without pauses.",
    414: "The URL is too long.",
    431: "The headers are too large, or too many.",
    503: "Too many connections. Come back later.",
}
_NO_HANDSHAKE = "Invalid WebSocket handshake received."


class _Refused(Exception):
    """Stops the parser; the protocol answers with its `_status`."""


class HttpProtocol(HttpToolsProtocol):
    def __init__(
        self, config: uvicorn.Config, server_state: Any, app_state: dict[str, Any], **more: Any
    ) -> None:
        super().__init__(config, server_state, app_state, **more)
        self.url = b""
        limits: Connections | None = app_state.get(STATE)
        self._limits = limits if limits is not None else _defaults()
        self.timeout_keep_alive = self._limits.idle_sec  # type: ignore[assignment]
        if self.ws_protocol_class is not None:
            self.ws_protocol_class = _counted(self.ws_protocol_class)
        self._peer: str | None = None
        self._phase = HEAD
        self._since = 0.0
        self._chunk_bytes = 0
        self._head_bytes = 0  # received since the head began; at most one chunk more
        self._head_bytes_first = 0
        self._body_bytes = 0
        self._framing_bytes = 0  # received since the last bytes of a body: chunk sizes, trailers
        self._held = b""
        self._unsent_bytes = 0
        self._unsent_since = 0.0
        self._status = 400

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = _peer_of(transport)
        over = self._limits.enter(peer, self.config.forwarded_allow_ips or "")
        self._since = self.loop.time()
        if over is not None:
            self.transport = transport
            self._refuse_connection(over)
            return
        self._peer = peer
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, HeadBufferingTransport(transport, self.loop))
        self._limits.sweep(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.forget(self)
        if self._peer is not None:
            self._limits.leave(self._peer)
            self._peer = None
        elif self._phase == REFUSED:
            self._limits.refused_open -= 1
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._phase == REFUSED:
            return  # read and ignored, so that the response is not lost
        if self._held or len(data) > SLICE_BYTES:
            self._held += data
            self._parse_held()
        else:
            self._parse(data)

    def _parse_held(self) -> None:
        held, at = self._held, 0
        while at < len(held) and not self.pipeline and self._is_ours:
            size = SLICE_OF_BODY_BYTES if self._phase == BODY else SLICE_BYTES
            self._parse(held[at : at + size])
            at += size
        self._held = held[at:] if self._is_ours else b""
        if len(self._held) > HELD_BYTES_MAX:
            self._stop_pipelining()
        elif self._held:
            self.flow.pause_reading()

    @property
    def _is_ours(self) -> bool:
        """Not refused, not closed, not upgraded to a WebSocket."""
        return self._phase not in (REFUSED, UPGRADED) and not self.transport.is_closing()

    def _parse(self, data: bytes) -> None:
        while data and self._is_ours:
            data = self._feed(data)

    def _feed(self, data: bytes) -> bytes:
        """Returns what follows a request for another protocol: the upgrade is ignored, both are served."""
        if self._phase == IDLE:
            self._phase, self._since, self._head_bytes = HEAD, self.loop.time(), 0
        self._chunk_bytes = len(data)
        if self._phase == HEAD:
            if not self._head_bytes:
                self._head_bytes_first = self._chunk_bytes
            self._head_bytes += self._chunk_bytes
        elif self._phase == BODY:
            self._framing_bytes += self._chunk_bytes
        self._unset_keepalive_if_required()
        left = b""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as found:
            if self._should_upgrade():
                self._upgrade()
                return b""
            left = data[found.args[0] :]
        except httptools.HttpParserError as error:
            self._refuse(self._status, error)
            return b""
        self._check_sizes()
        return left

    def _upgrade(self) -> None:
        if self._is_answering:
            self._refuse(400)  # the earlier response and the socket would be mixed
        else:
            self.handle_websocket_upgrade()

    def _check_sizes(self) -> None:
        if self._phase == HEAD:
            if self._head_bytes - self._head_bytes_first > self._limits.head_bytes_max:
                self._refuse(414 if len(self.url) > self._limits.url_bytes_max else 431)
        elif self._phase == BODY and self._framing_bytes > self._limits.head_bytes_max:
            self._refuse(431)
        if len(self.pipeline) > PIPELINED_MAX:
            self._stop_pipelining()

    def _stop_pipelining(self) -> None:
        self._limits.rejected["pipelined"] += 1
        self._phase, self._held = REFUSED, b""
        self.transport.abort()

    def on_message_begin(self) -> None:
        if self._phase != HEAD:  # pipelined: the earlier bytes of this chunk belong to another request
            self._phase, self._since = HEAD, self.loop.time()
            self._head_bytes = self._head_bytes_first = self._chunk_bytes
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        limits = self._limits
        if len(self.url) > limits.url_bytes_max:
            self._stop_parser(414)
        # The sum is computed only if enough bytes were received.
        if len(self.headers) > limits.headers_max or (
            self._head_bytes > limits.head_bytes_max
            and sum(len(name) + len(value) + 4 for name, value in self.headers) > limits.head_bytes_max
        ):
            self._stop_parser(431)
        upgrades = self.parser.should_upgrade() and self._should_upgrade()
        if self.parser.should_upgrade() and not upgrades and self._has_body():
            # For the parser the message ends here: its body would be parsed as the next request (smuggling).
            self._stop_parser(400)
        self._phase, self._since, self._body_bytes, self._framing_bytes = BODY, self.loop.time(), 0, 0
        super().on_headers_complete()
        if not upgrades:
            self.headers = []  # trailers come too late for the checks of headers, so they are dropped

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
            for name, value in self.headers
        )

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._phase = ANSWER
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._phase, self._since = IDLE, self.loop.time()

    def on_response_complete(self) -> None:
        if self.pipeline:
            super().on_response_complete()
        else:  # without uvicorn's timer for idle connections: `check` ends them
            self.server_state.total_requests += 1
            if not self.transport.is_closing():
                self.flow.resume_reading()
        if self._phase == ANSWER and not self._is_answering:
            self._phase, self._since = IDLE, self.loop.time()
        elif self._phase == HEAD:
            self._since = self.loop.time()  # it could not be read during the response
        if self._held and not self.pipeline:
            self._parse_held()
        if (self._held or self.pipeline) and self._is_ours:
            self.flow.pause_reading()

    def handle_websocket_upgrade(self) -> None:
        self._phase = UPGRADED
        self._limits.forget(self)
        super().handle_websocket_upgrade()
        upgraded = self.transport.get_protocol()
        if isinstance(upgraded, _Counted) and self._peer is not None:
            upgraded.counted_by, upgraded.peer, self._peer = self._limits, self._peer, None
        if not getattr(upgraded, "handshake_initiated", True):
            self._refuse_handshake()
        elif (answer := getattr(upgraded, "response", None)) is not None and answer.status_code >= 400:
            self._limits.rejected["malformed"] += 1  # the library has answered (no key, another version)
            self._limits.log_refusal(_peer_of(self.transport), answer.status_code, _NO_HANDSHAKE)

    def _refuse_handshake(self) -> None:
        """The WebSocket library refuses it (a body, a long line), and uvicorn sends no response."""
        is_long = any(len(name) + len(value) > SOCKET_LINE_BYTES_MAX for name, value in self.headers)
        status = 414 if len(self.url) > SOCKET_LINE_BYTES_MAX else 431 if is_long else 400
        self._limits.rejected[_REASONS[status]] += 1
        request_id = new_ulid()
        self._limits.log_refusal(_peer_of(self.transport), status, _SENTENCES[status], request_id)
        self.transport.write(_answer(status, request_id))
        self.transport.close()

    def check(self, now: float) -> None:
        """Called by the sweep of `Connections`."""
        limits, took_sec = self._limits, now - self._since
        if self._phase == HEAD:
            if self._is_answering:
                self._check_reader(now)
            elif took_sec > limits.head_sec:
                self._end_late("header_timeout", is_silent=not self._head_bytes)
        elif self._phase == BODY:
            if self.flow.read_paused:
                self._since = now  # the application does not read
                self._check_reader(now)
            elif took_sec > limits.body_sec + self._body_bytes / limits.body_bytes_per_sec:
                self._end_late("body_timeout", is_silent=False)
        elif self._phase == REFUSED:
            if took_sec > LINGER_SEC:
                self.transport.abort()
        elif self._phase == IDLE and took_sec > limits.idle_sec:
            self.transport.close()
        else:
            self._check_reader(now)

    @property
    def _is_answering(self) -> bool:
        return bool(self.pipeline) or (self.cycle is not None and not self.cycle.response_complete)

    def _check_reader(self, now: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent_bytes or not unsent:
            self._unsent_bytes, self._unsent_since = unsent, now
        elif now - self._unsent_since > self._limits.send_sec:
            self._limits.rejected["send_timeout"] += 1
            self.transport.abort()

    def _end_late(self, reason: str, *, is_silent: bool) -> None:
        self._limits.rejected[reason] += 1
        if is_silent:
            self.transport.close()
        else:
            self._answer_and_linger(408)

    def _stop_parser(self, status: int) -> None:
        self._status = status
        raise _Refused

    def _refuse(self, status: int, error: Exception | None = None) -> None:
        self._limits.rejected[_REASONS[status]] += 1
        self._answer_and_linger(status, error if status == 400 else None)

    def _refuse_connection(self, over: str) -> None:
        self._limits.rejected[over] += 1
        self._limits.refused_open += 1
        if self._limits.refused_open > REFUSED_OPEN_MAX:
            self._phase = REFUSED
            self.transport.abort()
            return
        self._limits.sweep(self)
        self._answer_and_linger(503)

    def _answer_and_linger(self, status: int, error: Exception | None = None) -> None:
        """Sends the response, closes the writing side, and reads for `LINGER_SEC` more."""
        self._phase, self._since = REFUSED, self.loop.time()
        request_id = new_ulid()
        self._limits.log_refusal(_peer_of(self.transport), status, _SENTENCES[status], request_id, error)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started or self.pipeline:
                self.transport.abort()  # another response has begun
                return
            cycle.disconnected = True  # the application sees a disconnect
            cycle.message_event.set()
        self.transport.write(_answer(status, request_id))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


class _Counted:
    """A WebSocket that is counted until it closes. A refused handshake is not logged as an error."""

    counted_by: Connections | None = None
    peer = ""

    async def send(self, message: object) -> None:
        await super().send(message)  # type: ignore[misc]
        if not isinstance(message, dict):  # another library: not an ASGI message
            return
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # uvicorn would report a missing response

    def connection_lost(self, exc: Exception | None) -> None:
        if self.counted_by is not None:
            self.counted_by.leave(self.peer)
            self.counted_by = None
        super().connection_lost(exc)  # type: ignore[misc]


_counted_kinds: dict[object, type[asyncio.Protocol]] = {}


def _counted(kind: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    if kind not in _counted_kinds:
        _counted_kinds[kind] = type(f"Counted{kind.__name__}", (_Counted, kind), {})
    return _counted_kinds[kind]


def _peer_of(transport: asyncio.Transport) -> str:
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""


@cache
def _defaults() -> Connections:
    """For other applications."""
    return Connections(NatsBackendConfig())


_REASONS = {400: "malformed", 414: "url", 431: "headers"}


def _answer(status: int, request_id: str) -> bytes:
    text = _SENTENCES[status]
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: text/plain; charset=utf-8",
        f"content-length: {len(text)}",
        "connection: close",
        f"x-request-id: {request_id}",
    ]
    lines += [f"retry-after: {RETRY_AFTER_SEC}"] if status == 503 else []
    return "\r\n".join([*lines, "", text]).encode()


def install(config: uvicorn.Config) -> None:
    """Replaces the protocol that this one extends. Another one was chosen on purpose and stays."""
    if config.http_protocol_class is HttpToolsProtocol:
        config.http_protocol_class = HttpProtocol
