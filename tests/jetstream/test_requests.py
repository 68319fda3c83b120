"""Requests end: with their own answer, at once when the connection breaks, or when their time is over."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.jetstream.errors import AnswerLost, BrokerAway, BrokerRefused
from pyoco_server.jetstream.requests import Reply
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import begun, config_on, stand_still


async def echo(store: Store, subject: str) -> None:
    """Answers with what it was sent, the last asked first."""
    waiting: list[tuple[str, bytes]] = []

    def answer() -> None:
        while waiting:
            reply, data = waiting.pop()
            store.client.send(reply, data)

    def on_message(_subject: bytes, reply: bytes, _headers: bytes, data: bytes) -> None:
        if not waiting:
            asyncio.get_running_loop().call_soon(answer)
        waiting.append((reply.decode(), data))

    await store.client.listen(subject, on_message)
    await store.jetstream.api("INFO")  # answered after it, so the broker knows of the subscription


async def test_many_requests_in_flight_get_their_own_answers(store: Store) -> None:
    other = await Store.connect(store.config, name="echo")
    await echo(other, f"{store.config.work_stream}.echo")
    asked = [b"%d" % number for number in range(2_000)]
    answers = await asyncio.gather(
        *(store.requests.ask(f"{store.config.work_stream}.echo", data) for data in asked)
    )
    assert [answer.data for answer in answers] == asked
    await other.close()


async def test_nobody_there_is_an_answer_and_comes_at_once(store: Store) -> None:
    with pytest.raises(BrokerRefused, match="nobody answers"):
        await store.requests.ask("nobody.is.here", b"")


async def test_an_answer_to_somebody_who_left_disturbs_nobody(store: Store) -> None:
    other = await Store.connect(store.config, name="echo")
    await echo(other, f"{store.config.work_stream}.echo")
    leaving = asyncio.create_task(store.requests.ask(f"{store.config.work_stream}.echo", b"a"))
    await asyncio.sleep(0)
    leaving.cancel()
    stayed = await store.requests.ask(f"{store.config.work_stream}.echo", b"b")
    assert stayed == Reply(b"", b"b")
    await until(lambda: not store.requests._waiting)
    await other.close()


async def test_a_request_without_a_connection_fails_at_once(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server, broker_timeout_sec=60.0), name="test")
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    with pytest.raises(BrokerAway):
        await store.requests.ask("$JS.API.INFO")
    assert store.why_not_ready
    await store.close()


async def test_requests_in_flight_are_told_at_once_that_the_broker_died(own_nats_server: NatsServer) -> None:
    # A timeout far beyond the test's own: only the break can end these.
    store = await Store.connect(config_on(own_nats_server, broker_timeout_sec=600.0), name="test")
    await store.client.listen("heard.and.not.answered", lambda *_: None)
    asked = [asyncio.create_task(store.requests.ask("heard.and.not.answered")) for _ in range(50)]
    await until(lambda: len(store.requests._waiting) == 50)
    own_nats_server.kill()
    async with asyncio.timeout(20):
        ends = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(end) for end in ends} == {AnswerLost}
    await store.close()


async def test_nobody_reconnects_for_a_store_that_is_closed(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    own_nats_server.kill()
    await until(lambda: store.client._reconnection_task is not None)
    reconnecting, store.client._reconnection_task = store.client._reconnection_task, None
    assert reconnecting is not None
    await store.close()  # the cancel does not reach it, as when it is swallowed
    await asyncio.wait_for(reconnecting, 20)


async def test_a_broker_that_stands_still_is_given_up_after_the_timeout(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server, broker_timeout_sec=1.0), name="test")
    await stand_still(own_nats_server)
    began_at = asyncio.get_running_loop().time()
    with pytest.raises(AnswerLost, match="INFO"):
        await store.requests.ask("$JS.API.INFO")
    assert asyncio.get_running_loop().time() - began_at >= 1.0
    own_nats_server.resume()
    await until(lambda: _answers(store))
    assert store.reconnects == 0
    await store.close()


async def test_requests_time_out_also_after_a_defect_while_they_were_looked_through(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = store.requests
    lose_late, failed = requests._lose_late, asyncio.Event()

    def fail_once() -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a defect")
        lose_late()

    monkeypatch.setattr(requests, "_lose_late", fail_once)
    subject = f"{store.config.work_stream}.silent"
    await store.client.listen(subject, lambda *_message: None)
    with pytest.raises(AnswerLost):
        await requests.ask(subject)
    assert failed.is_set()


async def test_a_store_outlives_the_death_of_its_broker(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    before = await begun(store)
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    own_nats_server.start()
    await until(lambda: store.is_connected and store.why_not_ready is None)
    found = await store.runs.load(before.run.run_id)
    assert found is not None
    assert found.run == before.run
    assert (await begun(store)).log_seq == before.log_seq + 1
    await store.close()


async def test_closing_twice_is_closing_once(store: Store) -> None:
    await store.requests.close()
    await store.requests.close()


async def _answers(store: Store) -> bool:
    try:
        return bool((await store.requests.ask("$JS.API.INFO")).data)
    except AnswerLost:
        return False
