"""An answer leaves in one write: nothing is added, left out or kept waiting."""

from __future__ import annotations

import asyncio
from typing import cast

from pyoco_server.http_api.server.head_buffer import HeadBufferingTransport


class Sink:
    """A transport that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append("close")

    def set_protocol(self, _protocol: asyncio.BaseProtocol) -> None:
        self.told.append("set_protocol")

    def is_closing(self) -> bool:
        return "close" in self.told


def joined() -> tuple[Sink, HeadBufferingTransport]:
    sink = Sink()
    return sink, HeadBufferingTransport(cast(asyncio.Transport, sink), asyncio.get_running_loop())


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


async def test_a_body_leaves_with_its_head_and_at_once() -> None:
    sink, transport = joined()
    transport.write(HEAD)
    assert sink.told == []
    transport.write(b"body")
    assert sink.told == [HEAD + b"body"]
    transport.write(b"more of it")
    await asyncio.sleep(0)
    assert sink.told == [HEAD + b"body", b"more of it"]


async def test_a_head_without_a_body_yet_leaves_at_the_end_of_its_step() -> None:
    sink, transport = joined()
    transport.write(HEAD)
    await asyncio.sleep(0)
    assert sink.told == [HEAD]
    transport.write(b"first line of a stream")
    assert sink.told == [HEAD, b"first line of a stream"]


async def test_closing_and_handing_over_come_after_what_was_written() -> None:
    sink, transport = joined()
    transport.write(HEAD)
    transport.set_protocol(asyncio.Protocol())
    transport.write(HEAD)
    transport.close()
    await asyncio.sleep(0)
    assert sink.told == [HEAD, "set_protocol", HEAD, "close"]
    assert transport.is_closing()
