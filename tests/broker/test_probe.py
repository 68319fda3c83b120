"""Recognising what listens on a port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pyoco_server.broker import foreign_nats, wait_until_listening
from pyoco_server.broker.prepare import choose_port
from pyoco_server.broker.probe import Greeting, greeting_at, parse_greeting

if TYPE_CHECKING:
    from tests.broker.conftest import MakeBroker


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody who listens and, unless the test makes it, says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(5)
        yield listening


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


async def test_a_nats_that_already_answers_is_recognised(make_broker: MakeBroker) -> None:
    async with make_broker() as broker:
        found = await asyncio.to_thread(foreign_nats, "127.0.0.1", broker.port)
    assert found is not None
    assert found.startswith("nats-server 2.")
    assert f"with JetStream at 127.0.0.1:{broker.port}" in found


def test_nobody_there_is_no_nats(free_port: int) -> None:
    assert foreign_nats("127.0.0.1", free_port) is None


async def test_a_listener_that_says_nothing_is_no_nats(listener: socket.socket) -> None:
    assert await asyncio.to_thread(foreign_nats, "127.0.0.1", port_of(listener)) is None
    assert await greeting_at("127.0.0.1", port_of(listener)) is None


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH_9.6\r\n", b"INFO not json\r\n", b"x" * 200_000])
async def test_a_listener_that_says_something_else_is_no_nats(words: bytes) -> None:
    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        writer.close()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        port = port_of(server.sockets[0])
        assert await greeting_at("127.0.0.1", port) is None
        assert await asyncio.to_thread(foreign_nats, "127.0.0.1", port) is None


def test_a_greeting_tells_name_version_and_jetstream() -> None:
    line = b'INFO {"server_name":"n1","version":"2.15.1","jetstream":true} \r\n'
    assert parse_greeting(line) == Greeting(server_name="n1", version="2.15.1", jetstream=True)
    assert parse_greeting(b'INFO {"version":"2.15.1"}\r\n') == Greeting("", "2.15.1", jetstream=False)
    assert parse_greeting(b"INFO []\r\n") is None
    assert parse_greeting(b"") is None


async def test_waiting_for_a_listener_ends_when_there_is_one(free_port: int) -> None:
    waiting = asyncio.create_task(wait_until_listening("127.0.0.1", free_port, timeout_sec=10))
    done, _ = await asyncio.wait({waiting}, timeout=0.02)
    assert not done
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", free_port):
        assert await waiting


async def test_waiting_for_a_listener_ends_when_time_is_up(free_port: int) -> None:
    assert not await wait_until_listening("127.0.0.1", free_port, timeout_sec=0.03)


def test_a_free_preferred_port_is_chosen(free_port: int) -> None:
    assert choose_port("127.0.0.1", free_port) == free_port


def test_for_a_busy_port_another_is_chosen(listener: socket.socket) -> None:
    assert choose_port("127.0.0.1", port_of(listener)) not in (0, port_of(listener))
