"""The short cut on nats-py's connection: what is sent, what is not, and what a broken handler may do."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyoco_server.errors import Invalid, TooLarge
from pyoco_server.jetstream.errors import BrokerAway
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import config_on


class Heard:
    """A subscription of a test."""

    def __init__(self, store: Store, subject: str) -> None:
        self._store = store
        self._subject = subject
        self.messages: list[tuple[str, bytes, bytes]] = []
        self.sid = 0

    async def open(self) -> Heard:
        self.sid = await self._store.client.listen(self._subject, self._on_message)
        await self._store.client.flush()
        return self

    def _on_message(self, subject: bytes, _reply: bytes, headers: bytes, data: bytes) -> None:
        if data == b"break":
            raise RuntimeError("a handler of ours is broken")
        self.messages.append((subject.decode(), headers, data))

    @property
    def payloads(self) -> list[bytes]:
        return [data for _, _, data in self.messages]


async def test_a_listener_gets_subject_headers_and_payload(store: Store) -> None:
    heard = await Heard(store, "hear.*").open()
    store.client.send("hear.a", b"plain")
    store.client.send("hear.b", b"with", headers=b"NATS/1.0\r\nA: 1\r\n\r\n")
    await until(lambda: len(heard.messages) == 2)
    assert heard.messages == [
        ("hear.a", b"", b"plain"),
        ("hear.b", b"NATS/1.0\r\nA: 1\r\n\r\n", b"with"),
    ]


async def test_what_is_sent_in_one_step_arrives_in_order(store: Store) -> None:
    heard = await Heard(store, "order").open()
    numbers = [b"%d" % number for number in range(1_000)]
    for number in numbers:
        store.client.send("order", number)
    await until(lambda: len(heard.messages) == len(numbers))
    assert heard.payloads == numbers


async def test_an_ended_listener_hears_no_more(store: Store) -> None:
    first, second = await Heard(store, "once").open(), await Heard(store, "once").open()
    await store.client.unlisten(first.sid)
    store.client.send("once", b"x")
    await until(lambda: second.messages)
    assert first.messages == []
    await store.client.unlisten(first.sid)


async def test_a_broken_handler_does_not_make_the_connection_deaf(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    heard = await Heard(store, "fragile").open()
    with caplog.at_level(logging.ERROR):
        store.client.send("fragile", b"break")
        store.client.send("fragile", b"fine")
        await until(lambda: heard.payloads == [b"fine"])
    assert "a message was not handled" in caplog.messages


async def test_a_message_too_large_for_the_broker_is_refused_here_and_harms_nobody(store: Store) -> None:
    heard = await Heard(store, "size").open()
    with pytest.raises(TooLarge):
        store.client.send("size", b"x" * (store.client.max_payload + 1))
    with pytest.raises(TooLarge):
        await store.jetstream.publish("size", b"x" * (store.client.max_payload + 1))
    store.client.send("size", b"small")
    await until(lambda: heard.payloads == [b"small"])
    assert store.reconnects == 0


@pytest.mark.parametrize("subject", ["a b", "a\r\nPUB b 1\r\nx", "a\tb"])
async def test_a_name_cannot_smuggle_a_command_into_the_connection(store: Store, subject: str) -> None:
    with pytest.raises(Invalid):
        store.client.send(subject, b"")
    await store.client.flush()
    assert store.reconnects == 0


async def test_nothing_is_sent_while_the_broker_is_away(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    with pytest.raises(BrokerAway):
        store.client.send("somewhere", b"x")
    await store.close()


async def test_what_was_not_sent_before_a_break_is_not_sent_after_it(nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(nats_server), name="test")
    witness = await Store.connect(store.config, name="witness")
    heard = await Heard(witness, "break.>").open()
    store.client.send("break.before", b"unsent")
    await store.client.force_reconnect()  # in the same step: the bytes are still ours
    await until(lambda: store.reconnects == 1)
    store.client.send("break.after", b"sent")
    await until(lambda: heard.messages)
    assert heard.payloads == [b"sent"]
    await asyncio.gather(store.close(), witness.close())


async def test_listeners_are_alive_again_after_the_broker_was_killed_and_started(
    own_nats_server: NatsServer,
) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    before = await Heard(store, "alive").open()
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    meanwhile = Heard(store, "alive")
    meanwhile.sid = await store.client.listen("alive", meanwhile._on_message)
    own_nats_server.start()
    await until(lambda: store.reconnects == 1)
    store.client.send("alive", b"x")
    await until(lambda: before.messages and meanwhile.messages)
    assert before.payloads == meanwhile.payloads == [b"x"]
    await store.close()
