"""Streams to clients, driven by hand: what is sent, what waits, and what ends them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.sse import Backlog, EventStream, Streams


class Reader:
    """The other end of a stream: what it was sent, and whether it still takes anything."""

    def __init__(self, stream: EventStream, method: str = "GET") -> None:
        self.sent: list[dict[str, Any]] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self._left = asyncio.Event()
        scope = {"type": "http", "method": method, "path": "/x", "headers": []}
        self.serving = asyncio.create_task(stream(scope, self._receive, self._send))

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_complete(self) -> bool:
        return self.sent[-1].get("more_body") is None

    def leave(self) -> None:
        self._left.set()

    async def ended(self) -> None:
        async with asyncio.timeout(10):
            await self.serving

    async def has(self, body: bytes) -> None:
        async with asyncio.timeout(10):
            while self.body != body:
                assert not self.serving.done()
                await asyncio.sleep(0.005)

    async def _receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.takes.wait()
        self.sent.append(message)


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    opened = Streams(NatsBackendConfig())
    yield opened
    opened.end()


def reading(backlog: Backlog, streams: Streams, *, timeout_sec: float = 600.0) -> Reader:
    return Reader(EventStream(backlog, streams, timeout_sec=timeout_sec))


def an_event(name: str) -> sse.EventBatch:
    return sse.event(name, b"{}")


def sent(*names: str) -> bytes:
    return b"".join(b"event: %s\ndata: {}\n\n" % name.encode() for name in names)


async def test_events_are_sent_in_their_order_and_the_end_follows_the_last(streams: Streams) -> None:
    backlog = Backlog()
    backlog.put(an_event("1"))
    reader = reading(backlog, streams)
    await reader.has(sse.OPENING + sent("1"))
    backlog.put(an_event("2"))
    backlog.put(an_event("3"))
    backlog.close()
    assert not backlog.put(an_event("4"))
    await reader.ended()
    assert reader.body == sse.OPENING + sent("1", "2", "3")
    assert reader.is_complete
    assert len(streams) == 0


async def test_beyond_its_bound_a_reader_is_sent_what_waits_and_let_go(streams: Streams) -> None:
    """Without a gap: it resumes after the last event it has."""
    for backlog in (Backlog(events_max=2), Backlog(bytes_max=len(sent("1", "2")))):
        assert [backlog.put(an_event(one)) for one in "1234"] == [True, True, False, False]
        reader = reading(backlog, streams)
        await reader.ended()
        assert reader.body == sse.OPENING + sent("1", "2")


async def test_a_reader_that_takes_nothing_is_not_waited_for_for_ever(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SLOW_READER_SEC", 0.05)
    backlog = Backlog()
    reader = reading(backlog, streams)
    await reader.has(sse.OPENING)
    reader.takes.clear()
    backlog.put(an_event("1"))
    await reader.ended()
    assert not reader.is_complete
    assert not backlog.put(an_event("2"))
    assert len(streams) == 0


async def test_whoever_leaves_is_sent_nothing_more(streams: Streams) -> None:
    backlog = Backlog()
    reader = reading(backlog, streams)
    await reader.has(sse.OPENING)
    reader.leave()
    await reader.ended()
    assert reader.body == sse.OPENING
    assert not backlog.put(an_event("late"))


async def test_the_end_of_the_gateway_is_the_end_of_all_streams(streams: Streams) -> None:
    readers = [reading(Backlog(), streams) for _ in range(3)]
    for reader in readers:
        await reader.has(sse.OPENING)
    streams.end()
    for reader in [*readers, reading(Backlog(), streams)]:
        await reader.ended()
        assert reader.is_complete


async def test_silence_is_filled_and_the_time_ends_it(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SEC", 0.01)
    reader = reading(Backlog(), streams, timeout_sec=0.2)
    await reader.ended()
    assert reader.is_complete
    said = reader.body.removeprefix(sse.OPENING)
    assert said == sse.COMMENT * (len(said) // len(sse.COMMENT))
    assert said


async def test_head_sends_headers_only(streams: Streams) -> None:
    backlog = Backlog()
    backlog.put(an_event("1"))
    reader = Reader(EventStream(backlog, streams, timeout_sec=600), "HEAD")
    await reader.ended()
    assert reader.body == b""
    headers = dict(reader.sent[0]["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert (headers[b"cache-control"], headers[b"x-accel-buffering"]) == (b"no-store", b"no")
    assert b"content-length" not in headers


async def test_a_server_that_gives_up_on_a_stream_takes_its_source_away(streams: Streams) -> None:
    backlog = Backlog()
    reader = reading(backlog, streams)
    await reader.has(sse.OPENING)
    reader.serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reader.serving
    assert not backlog.put(an_event("1"))
    assert len(streams) == 0


def test_an_event_has_its_id_only_when_one_can_resume_from_it() -> None:
    assert sse.event("a", b"{}", "7").encoded == b"event: a\nid: 7\ndata: {}\n\n"
    assert sse.event("a", b"{}").encoded == b"event: a\ndata: {}\n\n"
