"""Server-sent events: one reader, fed by callbacks, never polled. Independent of faces and runs.

A stream opens with its `retry:` line, sends what its source has, and sends keep-alives when there is nothing
to send. It ends when the source is over, the time is up, the reader has disconnected or reads nothing, or the
gateway stops. The source bounds what waits for a slow reader: it keeps the latest state, or a `Backlog`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Protocol

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Limited
from pyoco_server.http_api.middleware.callers import limit_key_of
from pyoco_server.http_api.requests.connected import until_disconnected
from pyoco_server.operations.concurrency import Concurrency
from pyoco_server.operations.live.notify import Notify as Notify
from pyoco_server.operations.live.notify import noop

log = logging.getLogger(__name__)

KEEP_ALIVE_SEC = 15.0
# After this long without reading, a reader is disconnected. It can reconnect and resume.
SLOW_READER_SEC = 20.0
RETRY_MS = 1_000
# When a stream that was refused because too many are open may be tried again.
RETRY_AFTER_SEC = 5.0
BACKLOG_EVENTS_MAX = 1_000
BACKLOG_BYTES_MAX = 1_048_576

OPENING = f"retry: {RETRY_MS}\n\n".encode()
COMMENT = b": keep-alive\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class StreamEvent(NamedTuple):
    """`data` is JSON, and so has no line breaks of its own. `id`: a reader can resume after this event."""

    name: str
    data: bytes
    id: str | None = None


class EventBatch(tuple[StreamEvent, ...]):
    """Events that are sent in one write. Readers of the same source share a batch, and so its encoding."""

    @cached_property
    def encoded(self) -> bytes:
        return b"".join(_encoded(one) for one in self)


def event(name: str, data: bytes, event_id: str | None = None) -> EventBatch:
    """A batch of one event."""
    return EventBatch((StreamEvent(name, data, event_id),))


def _encoded(one: StreamEvent) -> bytes:
    event_id = b"" if one.id is None else b"id: " + one.id.encode() + b"\n"
    return b"event: " + one.name.encode() + b"\n" + event_id + b"data: " + one.data + b"\n\n"


class Source(Protocol):
    """What one reader is to be sent."""

    def attach(self, notify: Notify) -> None:
        """From now on, call this when there may be more to take."""

    def detach(self) -> None:
        """The reader has disconnected. Called once."""

    def take(self) -> EventBatch | None:
        """The next events; None when there are none now."""

    @property
    def is_over(self) -> bool:
        """Nothing follows after what can be taken now."""


class Backlog:
    """Events for one reader in the order they came, up to a bound; beyond it the stream ends."""

    def __init__(self, *, events_max: int = BACKLOG_EVENTS_MAX, bytes_max: int = BACKLOG_BYTES_MAX) -> None:
        self._waiting: deque[EventBatch] = deque()
        self._bytes = 0
        self._events_max, self._bytes_max = events_max, bytes_max
        self._notify: Notify = noop
        self._is_over = False

    def put(self, batch: EventBatch) -> bool:
        """False when the reader is too far behind, or the backlog closed: nothing more need be put."""
        if self._is_over:
            return False
        if len(self._waiting) >= self._events_max or self._bytes + len(batch.encoded) > self._bytes_max:
            self.close()  # what waits is still sent, without a gap; the reader resumes after it
            return False
        self._waiting.append(batch)
        self._bytes += len(batch.encoded)
        self._notify()
        return True

    def close(self) -> None:
        self._is_over = True
        self._notify()

    def attach(self, notify: Notify) -> None:
        self._notify = notify

    def detach(self) -> None:
        self._notify = noop
        self._is_over = True
        self._waiting.clear()

    def take(self) -> EventBatch | None:
        if not self._waiting:
            return None
        batch = self._waiting.popleft()
        self._bytes -= len(batch.encoded)
        return batch

    @property
    def is_over(self) -> bool:
        return self._is_over


class Streams:
    """The open streams of this process: limited in number, and ended together."""

    def __init__(self, config: NatsBackendConfig) -> None:
        # Waiting requests are counted with the streams: they cost the same.
        self.concurrency = Concurrency(
            "streams",
            per_caller=config.streams_per_caller,
            per_caller_setting="PYOCO_STREAMS_PER_CALLER",
            total=config.streams_max,
            total_setting="PYOCO_STREAMS_MAX",
            retry_after_sec=RETRY_AFTER_SEC,
        )
        self._open: set[Notify] = set()
        self.ended = False

    def enter(self, notify: Notify) -> None:
        self._open.add(notify)

    def leave(self, notify: Notify) -> None:
        self._open.discard(notify)

    def end(self) -> None:
        """Final: a stream that begins after this ends at once."""
        self.ended = True
        for notify in tuple(self._open):
            notify()

    def __len__(self) -> int:
        return len(self._open)


class EventStream(Response):
    """A response that stays open. `keep_alive` makes what is sent after a while without events."""

    media_type = "text/event-stream"

    def __init__(
        self,
        source: Source,
        streams: Streams,
        *,
        timeout_sec: float,
        keep_alive: Callable[[], bytes] = lambda: COMMENT,
        keep_alive_sec: float | None = None,
    ) -> None:
        super().__init__(status_code=200, headers=HEADERS)
        del self.headers["content-length"]
        self._source = source
        self._streams = streams
        self._timeout_sec = timeout_sec
        self._keep_alive = keep_alive
        self._keep_alive_sec = KEEP_ALIVE_SEC if keep_alive_sec is None else keep_alive_sec

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            leave = self._streams.concurrency.enter(limit_key_of(HTTPConnection(scope)))
        except Limited:
            self._source.detach()
            raise  # nothing was sent yet, so it is answered like any refusal
        try:
            await self._serve(scope, receive, send)
        finally:
            leave()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        wakeup = asyncio.Event()
        disconnected = asyncio.ensure_future(until_disconnected(receive))
        disconnected.add_done_callback(lambda _: wakeup.set())
        self._source.attach(wakeup.set)
        self._streams.enter(wakeup.set)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await self._flow(send, wakeup, disconnected)
            if not disconnected.done():
                await send({"type": "http.response.body", "body": b""})
        except (_TooSlow, OSError):
            log.info("a slow reader was disconnected", extra={"path": scope["path"]})
        finally:
            self._streams.leave(wakeup.set)
            self._source.detach()
            disconnected.cancel()

    async def _flow(self, send: Send, wakeup: asyncio.Event, disconnected: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._timeout_sec
        await _write(send, OPENING)
        keep_alive_at = loop.time() + self._keep_alive_sec
        while not (disconnected.done() or self._streams.ended):
            wakeup.clear()
            now = loop.time()
            batch = self._source.take()
            if batch is None:
                if self._source.is_over or now >= ends_at:
                    return
                if now < keep_alive_at:
                    await _wait_for(wakeup, min(ends_at, keep_alive_at))
                    continue
            await _write(send, self._keep_alive() if batch is None else batch.encoded)
            keep_alive_at = loop.time() + self._keep_alive_sec


class _TooSlow(Exception):
    pass


async def _write(send: Send, data: bytes) -> None:
    """`send` waits while the reader has not taken what was written."""
    try:
        async with asyncio.timeout(SLOW_READER_SEC):
            await send({"type": "http.response.body", "body": data, "more_body": True})
    except TimeoutError:
        raise _TooSlow from None


async def _wait_for(wakeup: asyncio.Event, until: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await wakeup.wait()
