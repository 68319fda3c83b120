"""The parser: however the bytes are cut, the same messages come out, in order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from nats.protocol.parser import Parser

from pyoco_server.jetstream.parser import MessageParser

WORDS = st.text("abcXYZ0189.$_-", min_size=1, max_size=12).map(str.encode)
BYTES = st.binary(max_size=60)
HEADERS = st.one_of(st.none(), BYTES.map(lambda raw: b"NATS/1.0\r\n" + raw + b"\r\n\r\n"))
MESSAGES = st.tuples(WORDS, st.integers(1, 999), st.one_of(st.just(b""), WORDS), HEADERS, BYTES)
OTHERS = st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n"])


class Client:
    """Hears what a parser finds."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> None:
        self.heard.append((sid, bytes(subject), bytes(reply), bytes(data), headers))

    async def _process_ping(self) -> None:
        self.heard.append("ping")

    async def _process_pong(self) -> None:
        self.heard.append("pong")


@given(st.lists(st.one_of(MESSAGES, OTHERS), max_size=8), st.lists(st.integers(1, 40), max_size=40))
async def test_any_cut_of_the_bytes_gives_what_the_ordinary_parser_gives(
    things: list[Any], cuts: list[int]
) -> None:
    wire = b"".join(map(_wire, things))
    ours, theirs = Client(), Client()
    await Parser(theirs).parse(wire)
    parser = MessageParser(ours)
    for piece in _pieces(wire, cuts):
        await parser.parse(piece)
    assert ours.heard == theirs.heard
    assert not parser.buf


@given(st.lists(st.one_of(MESSAGES, OTHERS), max_size=8), st.lists(st.integers(1, 40), max_size=40))
async def test_bytes_taken_before_the_task_reads_give_the_same_in_the_same_order(
    things: list[Any], cuts: list[int]
) -> None:
    wire = b"".join(map(_wire, things))
    ours, theirs = Client(), Client()
    await Parser(theirs).parse(wire)

    def hand_over(sid: int, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bool:
        if sid % 2:  # nats-py has subscriptions of its own
            return False
        ours.heard.append((sid, subject, reply, data, headers or None))
        return True

    parser = MessageParser(ours, hand_over)
    for piece in _pieces(wire, cuts):
        if rest := parser.take(piece):
            await parser.parse(rest)
    assert ours.heard == theirs.heard
    assert not parser.buf


async def test_nothing_is_taken_while_the_task_is_in_the_middle_of_something() -> None:
    client, is_over = Client(), asyncio.Event()

    async def wait() -> None:
        await is_over.wait()

    client._process_ping = wait  # type: ignore[method-assign]
    parser = MessageParser(client, lambda sid, *_: sid == 7)
    parsing = asyncio.create_task(parser.parse(b"PING\r\nMSG a 1 1\r\n1\r\n"))
    await asyncio.sleep(0)
    later = b"MSG a 7 1\r\n2\r\n"
    assert parser.take(later) == later
    is_over.set()
    await parsing
    assert [data for *_, data, _ in client.heard] == [b"1"]
    assert parser.take(later) == b""


def test_a_malformed_line_is_left_to_the_task() -> None:
    parser = MessageParser(Client(), lambda *_: True)
    assert parser.take(b"MSG a 1 1\r\n1\r\nMSG a b c\r\n") == b"MSG a b c\r\n"


def _wire(thing: Any) -> bytes:
    if isinstance(thing, bytes):
        return thing
    subject, sid, reply, headers, payload = thing
    place = b"%s %d %s" % (subject, sid, reply + b" " if reply else b"")
    if headers is None:
        return b"MSG %s%d\r\n%s\r\n" % (place, len(payload), payload)
    size = len(headers)
    return b"HMSG %s%d %d\r\n%s%s\r\n" % (place, size, size + len(payload), headers, payload)


def _pieces(wire: bytes, cuts: list[int]) -> list[bytes]:
    pieces, place = [], 0
    for cut in cuts:
        pieces.append(wire[place : place + cut])
        place += cut
    return [*pieces, wire[place:]]
