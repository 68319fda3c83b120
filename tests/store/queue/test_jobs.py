"""The work queue: one job per number, whichever tag, and no delivery left lying with those who left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle.reduce import fold
from pyoco_server.store.queue.job_puller import REFUSED_PAUSE_SEC, Delivery, JobPuller
from pyoco_server.store.queue.jobs import QueueState, decode_job, submission_of
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import Mishap, config_on, stand_still, submission

Pull = Callable[..., Awaitable[JobPuller]]

PATIENCE_SEC = 10.0


@pytest.fixture
async def pull(store: Store) -> AsyncIterator[Pull]:
    opened: list[JobPuller] = []

    async def one(*tags: str, of: Store = store) -> JobPuller:
        opened.append(await of.queue.pull(tags or ("default",)))
        return opened[-1]

    yield one
    await asyncio.gather(*(puller.close() for puller in opened))


async def queued(store: Store, tag: str = "default") -> StoredRun:
    """A run with its job, without the log: the queue does not look there."""
    event = submission(tag=tag, tags=[tag])
    run = fold(None, [event])
    assert run is not None
    stored = StoredRun(run=run, commits=1, log_seq=7, revision=5)
    await store.queue.publish(event, stored)
    return stored


async def got(puller: JobPuller, timeout_sec: float = PATIENCE_SEC) -> Delivery:
    delivery = await puller.next(timeout_sec)
    assert delivery is not None
    return delivery


def run_ids(deliveries: Sequence[Delivery]) -> list[str]:
    return [decode_job(delivery.data).run_id for delivery in deliveries]


async def messages_left(store: Store) -> int:
    info = await store.jetstream.api(f"STREAM.INFO.{store.config.work_stream}")
    return int(info["state"]["messages"])


async def test_a_delivery_carries_all_that_a_claim_needs(store: Store, pull: Pull) -> None:
    event = submission()
    born = await store.runs.create(event, "c1")
    await store.queue.publish(event, born)
    delivery = await got(await pull())
    assert delivery.subject == f"{store.config.work_subject_prefix}.default"
    assert (delivery.job_no, delivery.log_seq, delivery.snapshot_revision) == (1, born.log_seq, born.revision)
    assert (delivery.num_delivered, delivery.sequence) == (1, 1)
    assert submission_of(decode_job(delivery.data)) == event


async def test_a_job_of_another_producer_has_no_number(store: Store, pull: Pull) -> None:
    await store.jetstream.publish(f"{store.config.work_subject_prefix}.default", b"{}")
    delivery = await got(await pull())
    assert (delivery.job_no, delivery.log_seq, delivery.snapshot_revision) == (None, 0, 0)


async def test_a_job_published_twice_is_there_once_and_its_next_number_besides(store: Store) -> None:
    event = submission()
    born = await store.runs.create(event, "c1")
    await store.queue.publish(event, born)
    await store.queue.publish(event, born)
    assert await messages_left(store) == 1
    await store.queue.publish(event, replace(born, run=replace(born.run, job_no=2)))
    assert await messages_left(store) == 2


async def test_a_job_whose_answer_was_lost_is_published_again_and_there_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mishap = Mishap(monkeypatch, store, store.config.work_subject_prefix, times=2)
    await queued(store)
    assert len(mishap.subjects) == 3
    assert await messages_left(store) == 1


async def test_an_acknowledged_job_is_gone(store: Store, pull: Pull) -> None:
    await queued(store)
    assert (await got(await pull())).ack()

    async def is_gone() -> bool:
        return await messages_left(store) == 0

    await until(is_gone)


async def test_a_terminated_job_is_gone(store: Store, pull: Pull) -> None:
    await queued(store)
    assert (await got(await pull())).term()

    async def is_gone() -> bool:
        return await messages_left(store) == 0

    await until(is_gone)


async def test_a_refused_job_comes_again_at_once(store: Store, pull: Pull) -> None:
    await queued(store)
    puller = await pull()
    (await got(puller)).nak()
    assert (await got(puller)).num_delivered == 2


async def test_a_job_refused_for_a_while_comes_again_after_it(store: Store, pull: Pull) -> None:
    await queued(store)
    puller = await pull()
    loop = asyncio.get_running_loop()
    (await got(puller)).nak(0.5)
    refused_at = loop.time()
    assert (await got(puller)).num_delivered == 2
    assert loop.time() - refused_at >= 0.45


async def test_a_job_in_progress_is_not_given_to_another(nats_server: NatsServer) -> None:
    store = await Store.connect(
        config_on(nats_server, consumer_ack_wait_sec=1.0, ack_progress_interval_sec=0.1), name="test"
    )
    await queued(store)
    puller, other = await store.queue.pull(["default"]), await store.queue.pull(["default"])
    delivery = await got(puller)
    waiting = asyncio.create_task(other.next(PATIENCE_SEC))
    loop = asyncio.get_running_loop()
    until_at = loop.time() + 1.6
    while loop.time() < until_at:
        delivery.in_progress()
        await asyncio.sleep(0.1)
    assert not waiting.done()
    again = await waiting  # nobody says so any more
    assert again is not None
    assert again.num_delivered == 2
    await store.close()


async def test_nothing_comes_within_the_time_and_that_is_said(store: Store, pull: Pull) -> None:
    puller = await pull("a", "b", "c")
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    assert await puller.next(0.3) is None
    assert loop.time() - began_at >= 0.29
    assert await puller.next(0.0) is None


async def test_of_many_tags_the_last_is_served_while_the_others_are_waited_for(
    store: Store, pull: Pull
) -> None:
    """One after the other would take four times the patience."""
    tags = ("a", "b", "c", "d", "e")
    puller = await pull(*tags)
    for tag in (*tags, *reversed(tags)):
        waiting = asyncio.create_task(puller.next(3600.0))
        await asyncio.sleep(0)
        stored = await queued(store, tag)
        async with asyncio.timeout(PATIENCE_SEC):
            delivery = await waiting
        assert delivery is not None
        assert run_ids([delivery]) == [stored.run.run_id]
        delivery.ack()


async def test_a_pull_left_from_before_does_not_cut_a_later_wait_short(store: Store, pull: Pull) -> None:
    """The first job ends the wait, the pulls of the other tags stand on for a moment and then expire."""
    puller = await pull("a", "b", "c")
    await queued(store, "a")
    (await got(puller, 0.5)).ack()
    waiting = asyncio.create_task(puller.next(3600.0))
    await until(lambda: all(_lasting(puller)))
    for tag in ("c", "b", "a"):
        stored = await queued(store, tag)
        async with asyncio.timeout(PATIENCE_SEC):
            delivery = await waiting
        assert delivery is not None
        assert run_ids([delivery]) == [stored.run.run_id]
        delivery.ack()
        waiting = asyncio.create_task(puller.next(3600.0))
    waiting.cancel()


def _lasting(puller: JobPuller) -> list[bool]:
    """For each tag, whether a pull stands that does not end within seconds."""
    now = asyncio.get_running_loop().time()
    pulls = puller._pulls
    return [any(pull.until > now + 60 for pull in pulls.at(subject)) for subject in puller._consumers]


def _has_pulled(puller: JobPuller) -> bool:
    """At every tag."""
    return all(puller._pulls.at(subject) for subject in puller._consumers)


async def test_a_delivery_that_nobody_waits_for_goes_to_another_worker(store: Store, pull: Pull) -> None:
    leaving, staying = await pull(), await pull()
    gone = asyncio.create_task(leaving.next(3600.0))
    await until(lambda: _has_pulled(leaving))
    await store.client.flush()
    leaving.dismiss_waiters()  # its pull stands on at the broker
    assert await gone is None
    await queued(store)
    delivery = await got(staying)
    assert delivery.num_delivered == 2


async def test_whoever_is_cancelled_as_a_delivery_comes_gives_it_back(store: Store, pull: Pull) -> None:
    puller = await pull()
    waiting = asyncio.create_task(puller.next(3600.0))
    await until(lambda: _has_pulled(puller))
    give = puller._on_message

    def give_and_cancel(*message: bytes) -> None:
        give(*message)
        waiting.cancel()

    assert puller._sid is not None
    store.client._handlers[puller._sid] = give_and_cancel
    await queued(store)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    store.client._handlers[puller._sid] = give
    assert (await got(puller)).num_delivered == 2


async def test_two_workers_share_the_work_without_doubles(
    store: Store, other_store: Store, pull: Pull
) -> None:
    sent = [(await queued(store, tag)).run.run_id for tag in ("a", "b", "c") * 20]
    taken: list[str] = []

    async def work(of: Store) -> int:
        puller = await pull("a", "b", "c", of=of)
        mine = 0
        while len(taken) < len(sent):
            delivery = await puller.next(0.5)
            if delivery is not None:
                taken.extend(run_ids([delivery]))
                delivery.ack()
                mine += 1
        return mine

    async with asyncio.timeout(30):
        shares = await asyncio.gather(work(store), work(other_store))
    assert sorted(taken) == sorted(sent)
    assert all(shares)


async def test_jobs_of_several_tags_are_not_worn_out_by_a_worker_that_takes_one_at_a_time(
    store: Store, pull: Pull
) -> None:
    sent = [(await queued(store, tag)).run.run_id for tag in ("a", "b", "c") * 20]
    puller = await pull("a", "b", "c")
    taken: list[Delivery] = []
    while len(taken) < len(sent):
        delivery = await puller.next(5.0)
        assert delivery is not None
        delivery.ack()
        taken.append(delivery)
    assert sorted(run_ids(taken)) == sorted(sent)
    assert {delivery.num_delivered for delivery in taken} == {1}


async def test_many_wait_at_one_puller_and_each_gets_its_own(store: Store, pull: Pull) -> None:
    puller = await pull("a", "b")
    waiting = [asyncio.create_task(puller.next(PATIENCE_SEC)) for _ in range(8)]
    sent = [(await queued(store, tag)).run.run_id for tag in ("a", "b") * 4]
    deliveries = [delivery for delivery in await asyncio.gather(*waiting) if delivery is not None]
    assert sorted(run_ids(deliveries)) == sorted(sent)
    assert {delivery.num_delivered for delivery in deliveries} == {1}


async def test_pulls_survive_the_death_of_the_broker(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    puller = await store.queue.pull(["a", "b"])
    store.on_reconnect(puller.forget_pulls)
    waiting = asyncio.create_task(puller.next(3600.0))
    await until(lambda: _has_pulled(puller))
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    own_nats_server.start()
    await until(lambda: store.reconnects == 1)
    stored = await queued(store, "b")
    async with asyncio.timeout(PATIENCE_SEC):
        delivery = await waiting
    assert delivery is not None
    assert run_ids([delivery]) == [stored.run.run_id]
    await store.close()


async def test_whoever_begins_to_wait_while_the_broker_is_away_is_served_when_it_is_back(
    own_nats_server: NatsServer,
) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    puller = await store.queue.pull(["a"])
    store.on_reconnect(puller.forget_pulls)
    stored = await queued(store, "a")
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    waiting = asyncio.create_task(puller.next(3600.0))
    await asyncio.sleep(0)
    own_nats_server.start()
    async with asyncio.timeout(PATIENCE_SEC):
        delivery = await waiting
    assert delivery is not None
    assert run_ids([delivery]) == [stored.run.run_id]
    await store.close()


async def test_what_cannot_be_told_to_the_broker_is_known_to_the_worker(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    await queued(store)
    delivery = await got(await store.queue.pull(["default"]))
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    assert [delivery.ack(), delivery.nak(), delivery.term(), delivery.in_progress()] == [False] * 4
    await store.close()


async def test_a_paused_puller_has_no_pull_at_the_broker_and_gets_nothing_until_it_resumes(
    store: Store, pull: Pull
) -> None:
    puller = await pull("a", "b")
    waiting = [asyncio.create_task(puller.next(3600.0)) for _ in range(8)]
    await until(lambda: _standing(store, "a", "b"))
    await puller.pause()
    stored = await queued(store, "a")
    assert await _standing(store, "a", "b") == 0
    assert await jobs_in_line(store, "a") == 1
    assert not any(task.done() for task in waiting)
    await puller.resume()
    done, rest = await asyncio.wait(waiting, timeout=PATIENCE_SEC, return_when=asyncio.FIRST_COMPLETED)
    [delivery] = [task.result() for task in done]
    assert delivery is not None
    assert (run_ids([delivery]), delivery.num_delivered) == ([stored.run.run_id], 1)
    puller.dismiss_waiters()
    await asyncio.wait(rest)


async def test_what_was_on_its_way_to_a_paused_puller_is_given_back_once(
    store: Store, pull: Pull, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given back while our pulls stand, it would come again until it has used up its deliveries."""
    puller, other = await pull(), await pull()
    waiting = [asyncio.create_task(puller.next(3600.0)) for _ in range(8)]
    await until(lambda: _standing(store, "default"))
    unlisten_gracefully = store.client.unlisten_gracefully

    async def job_first(sid: int) -> None:
        await queued(store)
        await until(lambda: puller._late)
        await unlisten_gracefully(sid)

    monkeypatch.setattr(store.client, "unlisten_gracefully", job_first)
    await puller.pause()
    assert (await got(other)).num_delivered == 2
    assert not any(task.done() for task in waiting)
    puller.dismiss_waiters()
    await asyncio.wait(waiting)


async def test_a_puller_paused_while_the_broker_is_away_pulls_nothing_when_it_is_back(
    own_nats_server: NatsServer,
) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    puller = await store.queue.pull(["a"])
    store.on_reconnect(puller.forget_pulls)
    waiting = asyncio.create_task(puller.next(3600.0))
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    await puller.pause()
    own_nats_server.start()
    await until(lambda: store.reconnects == 1 and store.why_not_ready is None)
    stored = await queued(store, "a")
    assert await _standing(store, "a") == 0
    await puller.resume()
    async with asyncio.timeout(PATIENCE_SEC):
        delivery = await waiting
    assert delivery is not None
    assert run_ids([delivery]) == [stored.run.run_id]
    await store.close()


async def _standing(store: Store, *tags: str) -> int:
    """Pulls at the broker."""
    names = [f"{store.config.consumer_prefix}_{tag}" for tag in tags]
    asked = [store.jetstream.api(f"CONSUMER.INFO.{store.config.work_stream}.{name}") for name in names]
    return sum(int(info["num_waiting"]) for info in await asyncio.gather(*asked))


async def test_jobs_that_no_worker_has_are_counted(store: Store, pull: Pull) -> None:
    assert await store.queue.state("default") is None
    await queued(store)
    await queued(store)
    puller = await pull()
    assert await jobs_in_line(store, "default") == 2
    await got(puller)
    assert await jobs_in_line(store, "default") == 1


async def test_a_closed_puller_sends_its_waiters_home_and_can_be_closed_twice(
    store: Store, pull: Pull
) -> None:
    puller = await pull()
    waiting = asyncio.create_task(puller.next(3600.0))
    await asyncio.sleep(0)
    await puller.close()
    assert await waiting is None
    await puller.close()


async def test_a_consumer_that_an_operator_deleted_is_made_again(store: Store, pull: Pull) -> None:
    puller = await pull("a", "b")
    waiting = [asyncio.create_task(puller.next(3600.0)) for _ in range(2)]
    await until(lambda: _has_pulled(puller))
    await store.client.flush()
    await _delete_consumer(store, "a")
    sent = [(await queued(store, tag)).run.run_id for tag in ("a", "b")]
    async with asyncio.timeout(PATIENCE_SEC):
        deliveries = await asyncio.gather(*waiting)
    assert sorted(run_ids([delivery for delivery in deliveries if delivery])) == sorted(sent)


async def test_a_consumer_deleted_while_nobody_waits_is_made_again_by_the_next_who_does(
    store: Store, pull: Pull
) -> None:
    puller = await pull()
    await _delete_consumer(store, "default")
    await queued(store)
    assert (await got(puller)).ack()
    assert await store.queue.state("default") == QueueState(0, None)


async def test_a_stream_that_an_operator_deleted_is_made_again_and_pulled_from(
    store: Store, pull: Pull
) -> None:
    puller = await pull()
    waiting = asyncio.create_task(puller.next(3600.0))
    await until(lambda: _has_pulled(puller))
    await store.client.flush()
    await store.jetstream.api(f"STREAM.DELETE.{store.config.work_stream}")
    await until(lambda: _has_consumer(store))
    stored = await queued(store)
    async with asyncio.timeout(PATIENCE_SEC):
        delivery = await waiting
    assert delivery is not None
    assert run_ids([delivery]) == [stored.run.run_id]


async def test_the_broker_is_not_asked_without_pause_for_a_consumer_it_refuses(
    store: Store, pull: Pull, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait: one request at a time, and a pause before it."""
    puller = await pull()
    await _delete_consumer(store, "default")
    mishap = Mishap(monkeypatch, store, "$JS.API.CONSUMER.INFO", times=3)
    waiting = [asyncio.create_task(puller.next(3600.0)) for _ in range(8)]
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    await queued(store)
    done, _ = await asyncio.wait(waiting, timeout=PATIENCE_SEC, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    assert len(mishap.subjects) == 4
    assert loop.time() - began_at >= 4 * REFUSED_PAUSE_SEC
    puller.dismiss_waiters()
    await asyncio.gather(*waiting)


async def test_the_queue_has_answered_when_it_says_that_there_is_nothing(store: Store, pull: Pull) -> None:
    puller = await pull()
    assert puller.answered_at is None
    assert await puller.next(0.1) is None
    first = puller.answered_at
    assert first is not None
    await queued(store)
    await got(puller)
    assert puller.answered_at is not None
    assert puller.answered_at >= first


async def test_silence_and_refusals_are_no_answers(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    puller = await store.queue.pull(["default"])
    assert await puller.next(0.1) is None
    answered_at = puller.answered_at
    assert answered_at is not None
    await stand_still(own_nats_server)
    assert await puller.next(0.1) is None
    assert puller.answered_at == answered_at
    own_nats_server.resume()
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    heard_at = puller.answered_at  # it may have said something between waking up and its end
    assert await puller.next(0.1) is None
    assert puller.answered_at == heard_at
    await store.close()


async def _delete_consumer(store: Store, tag: str) -> None:
    config = store.config
    await store.jetstream.api(f"CONSUMER.DELETE.{config.work_stream}.{config.consumer_prefix}_{tag}")


async def jobs_in_line(store: Store, tag: str) -> int:
    line = await store.queue.state(tag)
    assert line is not None
    return line.waiting


async def _has_consumer(store: Store) -> bool:
    return await store.queue.state("default") is not None


async def test_a_job_belongs_to_its_tag_alone(store: Store, pull: Pull) -> None:
    await queued(store, "gpu")
    other = await pull("cpu")
    assert await other.next(0.1) is None
    assert run_ids([await got(await pull("gpu"))])
