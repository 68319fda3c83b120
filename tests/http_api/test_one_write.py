"""An answer leaves in one write: nothing is added, left out or kept waiting."""

from __future__ import annotations

import asyncio
from typing import cast

from pyoco_server.http_api.one_write import GATHERED_BYTES_MAX, Gathered


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


def gathered() -> tuple[Sink, Gathered]:
    sink = Sink()
    return sink, Gathered(cast(asyncio.Transport, sink))


async def test_what_is_written_in_one_step_leaves_in_one_write() -> None:
    sink, transport = gathered()
    transport.write(b"head ")
    transport.write(b"body")
    assert sink.told == []
    await asyncio.sleep(0)
    assert sink.told == [b"head body"]


async def test_a_head_without_a_body_yet_leaves_at_the_end_of_its_step() -> None:
    sink, transport = gathered()
    transport.write(b"head of a stream")
    await asyncio.sleep(0)
    transport.write(b"its first line")
    await asyncio.sleep(0)
    assert sink.told == [b"head of a stream", b"its first line"]


async def test_closing_and_handing_over_come_after_what_was_written() -> None:
    sink, transport = gathered()
    transport.write(b"last words")
    transport.set_protocol(asyncio.Protocol())
    transport.write(b"and more")
    transport.close()
    await asyncio.sleep(0)
    assert sink.told == [b"last words", "set_protocol", b"and more", "close"]
    assert transport.is_closing()


async def test_much_is_passed_on_at_once() -> None:
    sink, transport = gathered()
    transport.write(b"x" * GATHERED_BYTES_MAX)
    assert sink.told == [b"x" * GATHERED_BYTES_MAX]
    await asyncio.sleep(0)
    assert len(sink.told) == 1
