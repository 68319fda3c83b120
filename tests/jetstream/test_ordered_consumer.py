"""The feed: every commit once and in order, through gaps, lost consumers and dead brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from pyoco_server.jetstream import ordered_consumer as feeding
from pyoco_server.jetstream.ordered_consumer import OrderedConsumer
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import begun, config_on, purge_log, tagged


class Fed:
    """A feed and everything that came out of it."""

    def __init__(self, store: Store) -> None:
        self.seen: list[int] = []
        self.runs: list[str] = []
        stream, prefix = store.config.events_stream, store.config.events_subject_prefix
        self.feed = OrderedConsumer(store.client, store.jetstream, stream, prefix, self._on_commit)

    def _on_commit(self, run_id: str, seq: int, _headers: bytes, _data: bytes) -> None:
        self.runs.append(run_id)
        self.seen.append(seq)

    async def reaches(self, seq: int) -> None:
        await until(lambda: self.feed.position >= seq)


Start = Callable[..., Awaitable[Fed]]


@pytest.fixture
async def start(store: Store) -> AsyncIterator[Start]:
    started: list[Fed] = []

    async def one(after: int = 0) -> Fed:
        fed = Fed(store)
        fed.feed.start(after)
        started.append(fed)
        await until(lambda: fed.feed.restarts == 1)
        return fed

    yield one
    for fed in started:
        await fed.feed.stop()


async def consumers(store: Store) -> list[str]:
    names = await store.jetstream.api(f"CONSUMER.NAMES.{store.config.events_stream}")
    return list(names["consumers"] or ())


async def test_what_was_and_what_comes_is_fed_in_order(store: Store, start: Start) -> None:
    before = [await begun(store) for _ in range(5)]
    fed = await start()
    after = [await begun(store) for _ in range(5)]
    await fed.reaches(10)
    assert fed.seen == list(range(1, 11))
    assert fed.runs == [stored.run.run_id for stored in (*before, *after)]


async def test_a_feed_begins_after_the_place_it_is_told(store: Store, start: Start) -> None:
    for _ in range(5):
        await begun(store)
    fed = await start(after=3)
    await fed.reaches(5)
    assert fed.seen == [4, 5]


async def test_more_than_a_window_of_flow_control_comes_through(store: Store, start: Start) -> None:
    """Without answering the broker's flow control it would stall half-way."""
    at = await begun(store, params={"x": "y" * 60_000})
    subject = f"{store.config.events_subject_prefix}.{at.run.run_id}"
    for _ in range(600):
        await store.jetstream.publish(subject, b"z" * 60_000)
    fed = await start()
    await fed.reaches(601)
    assert fed.seen == list(range(1, 602))
    assert fed.feed.restarts == 1


async def test_a_consumer_lost_at_the_broker_is_replaced_without_loss_or_double(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "SILENCE_MAX_SEC", 0.5)
    fed = await start()
    at = await tagged(store, await begun(store), "a")
    await fed.reaches(2)
    (name,) = await consumers(store)
    await store.jetstream.api(f"CONSUMER.DELETE.{store.config.events_stream}.{name}")
    at = await tagged(store, at, "b", "c")
    await fed.reaches(at.log_seq)
    assert fed.seen == [1, 2, 3, 4]
    await until(lambda: fed.feed.restarts == 2)


async def test_a_message_dropped_on_the_way_is_fetched_before_those_after_it(
    store: Store, start: Start
) -> None:
    fed = await start()
    at = await tagged(store, await begun(store), "a")
    await fed.reaches(2)
    dropped = intercept(store, fed, lambda number: number == 1)
    at = await tagged(store, at, "b", "c")
    await fed.reaches(at.log_seq)
    assert len(dropped) >= 1
    assert fed.seen == [1, 2, 3, 4]
    await until(lambda: fed.feed.restarts == 2)


def intercept(store: Store, fed: Fed, is_dropped: Callable[[int], bool]) -> list[bytes]:
    """Stand between the connection and the feed's present consumer; the subjects that passed by."""
    passed: list[bytes] = []
    sid = fed.feed._sid
    assert sid is not None
    hear = store.client._handlers[sid]

    def hear_or_not(subject: bytes, reply: bytes, headers: bytes, data: bytes) -> None:
        passed.append(subject)
        if not is_dropped(len(passed)):
            hear(subject, reply, headers, data)

    store.client._handlers[sid] = hear_or_not
    return passed


async def test_a_message_missed_at_the_end_is_noticed_by_the_heartbeat(store: Store, start: Start) -> None:
    """Nothing follows that could show the gap."""
    fed = await start()
    at = await begun(store)
    await fed.reaches(1)
    deaf, fed.feed._sid = fed.feed._sid, -1
    await tagged(store, at, "missed")
    await store.client.flush()
    fed.feed._sid = deaf
    await fed.reaches(2)
    assert fed.seen == [1, 2]


async def test_a_feed_goes_on_after_the_death_of_the_broker(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    fed = Fed(store)
    store.on_reconnect(fed.feed.handle_reconnect)
    fed.feed.start(0)
    at = await tagged(store, await begun(store), "a")
    await fed.reaches(2)
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    own_nats_server.start()
    await until(lambda: store.reconnects == 1)
    at = await tagged(store, at, "b", "c")
    await fed.reaches(at.log_seq)
    assert fed.seen == [1, 2, 3, 4]
    await fed.feed.stop()
    await store.close()


async def test_a_feed_that_starts_while_the_broker_is_away_begins_when_it_is_back(
    own_nats_server: NatsServer,
) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    await begun(store)
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    fed = Fed(store)
    fed.feed.start(0)
    own_nats_server.start()
    await fed.reaches(1)
    assert fed.seen == [1]
    await fed.feed.stop()
    await store.close()


async def test_rewinding_reads_everything_again_and_nothing_of_the_old_consumer(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the old consumer delivers before it is replaced must not move the place to begin at."""
    fed = await start()
    at = await tagged(store, await begun(store), "a", "b")
    await fed.reaches(3)
    begin, may_begin = fed.feed._unlisten, asyncio.Event()

    async def begin_later() -> None:
        await may_begin.wait()
        await begin()

    monkeypatch.setattr(fed.feed, "_unlisten", begin_later)
    passed = intercept(store, fed, lambda _: False)
    fed.seen.clear()
    fed.feed.rewind()
    await tagged(store, at, "c")
    await until(lambda: any(b".events." in subject for subject in passed))
    may_begin.set()
    await until(lambda: len(fed.seen) >= 4)
    assert fed.seen == [1, 2, 3, 4]


async def test_a_place_whose_messages_are_gone_is_confirmed(store: Store, start: Start) -> None:
    fed = await start()
    at = await begun(store)
    await fed.reaches(at.log_seq)
    gone = await begun(store)
    await purge_log(store, gone.run.run_id)
    late = await start(after=at.log_seq)
    assert late.feed.position == at.log_seq
    await late.feed.confirm(gone.log_seq)
    assert (late.feed.reached, late.feed.position) == (gone.log_seq, at.log_seq)
    assert late.seen == []


async def test_a_place_that_was_confirmed_is_looked_at_again_by_a_new_consumer(
    store: Store, start: Start
) -> None:
    """The stream may have lost its end meanwhile, and have other messages there."""
    await begun(store)
    await begun(store)
    fed = await start(after=1)
    await fed.reaches(2)
    fed.feed._confirmed = 9  # by a leader whose stream had seven more, that are gone
    fed.feed.handle_reconnect()
    await until(lambda: fed.feed.restarts == 2)
    assert fed.feed.reached == 2


async def test_a_place_with_messages_to_come_is_not_confirmed(store: Store, start: Start) -> None:
    fed = await start()
    at = await begun(store)
    await fed.reaches(at.log_seq)
    deaf, fed.feed._sid = fed.feed._sid, -1
    newer = await tagged(store, at, "unseen")
    await fed.feed.confirm(newer.log_seq)
    assert fed.feed.reached == at.log_seq
    fed.feed._sid = deaf
    await fed.reaches(newer.log_seq)


async def test_confirming_with_a_lost_consumer_begins_anew_at_once(store: Store, start: Start) -> None:
    fed = await start()
    at = await begun(store)
    await fed.reaches(at.log_seq)
    (name,) = await consumers(store)
    await store.jetstream.api(f"CONSUMER.DELETE.{store.config.events_stream}.{name}")
    newer = await begun(store)
    await fed.feed.confirm(newer.log_seq)
    await until(lambda: fed.feed.restarts == 2)
    await fed.reaches(newer.log_seq)


async def test_a_feed_goes_on_after_an_unexpected_error(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = await start()
    at = await begun(store)
    await fed.reaches(at.log_seq)
    subscribe, errors = fed.feed._subscribe, [AssertionError("a defect")]

    async def fail_at_first() -> None:
        if errors:
            raise errors.pop()
        await subscribe()

    monkeypatch.setattr(fed.feed, "_subscribe", fail_at_first)
    fed.feed.handle_reconnect()
    newer = await begun(store)
    await fed.reaches(newer.log_seq)
    assert fed.seen[-1] == newer.log_seq


async def test_a_consumer_on_a_lagging_replica_confirms_nothing(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replica has nothing left to deliver, and the leader has: the message must not be passed over."""
    fed = await start()
    at = await begun(store)
    await fed.reaches(at.log_seq)
    deaf, fed.feed._sid = fed.feed._sid, -1
    newer = await begun(store)
    api = store.jetstream.api

    async def as_a_lagging_replica(name: str, *args: Any) -> dict[str, Any]:
        answer = await api(name, *args)
        if name.startswith("CONSUMER.INFO"):
            answer["num_pending"] = 0
            answer["delivered"]["consumer_seq"] = fed.feed._consumer_seq
        return answer

    monkeypatch.setattr(store.jetstream, "api", as_a_lagging_replica)
    await fed.feed.confirm(newer.log_seq)
    assert fed.feed.reached == at.log_seq
    fed.feed._sid = deaf


async def test_a_feed_can_be_stopped_twice_and_leaves_no_subscription(store: Store) -> None:
    fed = Fed(store)
    fed.feed.start(0)
    await until(lambda: fed.feed.restarts == 1)
    before = len(store.client._handlers)
    await fed.feed.stop()
    await fed.feed.stop()
    assert len(store.client._handlers) == before - 1
    await begun(store)
    await store.client.flush()
    assert fed.seen == []
