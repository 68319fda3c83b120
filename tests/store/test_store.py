"""One connection, from the first try to the last word."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.errors import Unavailable
from pyoco_server.store import resources
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import begun, config_on


async def test_opening_waits_for_a_broker_that_is_not_up_yet(own_nats_server: NatsServer) -> None:
    own_nats_server.stop()
    store = Store(config_on(own_nats_server), name="test")
    opening = asyncio.create_task(store.open())
    await until(lambda: "no broker answers" in (store.why_not_ready or ""))
    assert not opening.done()
    own_nats_server.start()
    async with asyncio.timeout(20):
        await opening
    assert store.why_not_ready is None
    assert await begun(store)
    await store.close()


async def test_opening_can_be_given_up(own_nats_server: NatsServer) -> None:
    own_nats_server.stop()
    store = Store(config_on(own_nats_server), name="test")
    opening = asyncio.create_task(store.open())
    await until(lambda: "no broker answers" in (store.why_not_ready or ""))
    await store.close()
    async with asyncio.timeout(5):
        await opening
    assert not store.is_connected


async def test_a_store_that_was_never_opened_can_be_closed(nats_server: NatsServer) -> None:
    store = Store(config_on(nats_server), name="test")
    await store.close()
    await store.close()


async def test_a_store_can_be_closed_twice(nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(nats_server), name="test")
    await store.close()
    await store.close()
    assert not store.is_connected


async def test_an_old_broker_is_refused_and_no_connection_is_left(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Store] = []

    class Watched(Store):
        async def open(self) -> None:
            opened.append(self)
            await super().open()

    monkeypatch.setattr(resources, "OLDEST_BROKER", (99, 0))
    with pytest.raises(Unavailable, match=r"is too old\. Run nats-server 99\.0 or newer"):
        await Watched.connect(config_on(nats_server), name="test")
    assert opened[0].client.is_closed


async def test_those_who_asked_hear_of_every_reconnect_until_they_ask_no_more(
    own_nats_server: NatsServer,
) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    heard: list[int] = []

    def hook() -> None:
        heard.append(store.reconnects)

    async def reconnect() -> None:
        own_nats_server.kill()
        await until(lambda: not store.is_connected and store.why_not_ready is not None)
        own_nats_server.start()
        await until(lambda: store.is_connected and store.why_not_ready is None)

    store.on_reconnect(hook)
    await reconnect()
    await until(lambda: 1 in heard)
    await reconnect()
    await until(lambda: 2 in heard)
    store.forget_reconnect(hook)
    await reconnect()
    # Told once more where a stream had to be made again, as those in the broker's memory.
    assert sorted(set(heard)) == [1, 2]
    assert store._hooks == []
    await store.close()
