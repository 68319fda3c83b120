"""A broker that fails for a moment costs a run time, never its end, and never a second execution."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping import Housekeeper
from pyoco_server.lifecycle.events import RunClaimed, RunCompleted
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.attempt import claim as claiming
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from tests.conftest import NatsServer, until
from tests.engine.building import await_signal
from tests.worker.stage import (
    Flows,
    chain,
    commits_of,
    config_on,
    count_of,
    ended_as,
    jobs_queued,
    letters,
    one_task,
    queue_drained,
    status_of,
    submitted,
    the_run,
    until_handled,
    waiting,
    working,
)


async def test_a_claim_that_cannot_be_written_is_put_off_and_executed_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    flows = Flows()
    async with working(store.config, flows) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[0], RunClaimed))
        assert await worker.run_once(timeout=20.0) is None
        assert (await status_of(store, run_id), await jobs_queued(store), flows.asked) == ("PENDING", 1, [])
        assert await worker.run_once(timeout=0.5) is None, "it comes again only after two seconds"
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert (flows.asked, await letters(store)) == (["noop"], [])


async def test_a_claim_whose_answer_was_lost_is_found_in_the_log_and_executed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says that we have it, and we do not know: no other worker would ever take it from us."""
    run_id = await submitted(store)
    flows = Flows()
    async with working(store.config, flows) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[0], RunClaimed), after_it=True)
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        run = await the_run(store, run_id)
        assert (run.losses, run.crashes, run.fence, flows.asked) == (0, 0, 1, ["noop"])


async def test_a_run_that_was_cancelled_before_its_claim_was_found_begins_no_task(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to the claim and the push of the cancel were lost with one connection."""
    executed = threading.Event()
    run_id = await submitted(store, "late")
    async with working(store.config, Flows(late=one_task(executed.set))) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[0], RunClaimed), after_it=True)
        monkeypatch.setattr(AttemptMonitor, "_on_commit", lambda *_: None)
        load = worker._store.runs.load

        async def load_after_the_cancel(*asked: Any, **options: Any) -> StoredRun | None:
            await cancel_run(store, run_id)
            return await load(*asked, **options)

        monkeypatch.setattr(worker._store.runs, "load", load_after_the_cancel)
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "CANCELLED")
    assert not executed.is_set()


async def test_a_claim_that_nothing_could_be_found_out_about_is_handed_back_by_housekeeping(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker lives on and is busy elsewhere; its lease does not list the run."""
    monkeypatch.setattr(claiming, "LOST_REPLY_SEC_MAX", 0.0)
    config = config_on(
        nats_server, worker_lease_sec=1.1, worker_lease_interval_sec=0.1, housekeeping_interval_sec=0.1
    )
    store = await Store.connect(config, name="test")
    model = ReadModel(store.client, store.jetstream, config)
    await model.start()
    keeper = Housekeeper(store, model)
    keeper.start()
    flows = Flows()
    async with working(config, flows, worker_id="cut") as cut:
        run_id = await submitted(store)
        _fail_once(cut, monkeypatch, lambda events: isinstance(events[0], RunClaimed), after_it=True)
        with monkeypatch.context() as trouble:
            trouble.setattr(cut._store.runs, "load", _away)
            assert await cut.run_once(timeout=20.0) is None
        assert (await status_of(store, run_id), flows.asked) == ("RUNNING", [])
        async with working(config, flows, worker_id="other") as other:
            await until_handled(other, run_id, tries=20)
            await ended_as(store, run_id, "COMPLETED")
    run = await the_run(store, run_id)
    assert (run.losses, run.crashes, flows.asked) == (0, 0, ["noop"])
    await keeper.stop()
    await model.stop()
    await store.close()


async def test_a_cancel_of_a_run_whose_claim_was_lost_ends_it(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "LOST_REPLY_SEC_MAX", 0.0)
    config = config_on(
        nats_server, worker_lease_sec=1.1, worker_lease_interval_sec=0.1, housekeeping_interval_sec=0.1
    )
    store = await Store.connect(config, name="test")
    model = ReadModel(store.client, store.jetstream, config)
    await model.start()
    keeper = Housekeeper(store, model)
    keeper.start()
    async with working(config, worker_id="cut") as cut:
        run_id = await submitted(store)
        _fail_once(cut, monkeypatch, lambda events: isinstance(events[0], RunClaimed), after_it=True)
        with monkeypatch.context() as trouble:
            trouble.setattr(cut._store.runs, "load", _away)
            assert await cut.run_once(timeout=20.0) is None
        await cancel_run(store, run_id)
        assert await status_of(store, run_id) == "CANCELLING"

        async def is_cancelled() -> bool:
            return await status_of(store, run_id) == "CANCELLED"

        await until(is_cancelled)
    await keeper.stop()
    await model.stop()
    await store.close()


async def test_an_end_that_cannot_be_written_yet_is_written_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    flows = Flows()
    async with working(store.config, flows) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[-1], RunCompleted))
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert flows.asked == ["noop"]


async def test_an_end_whose_answer_was_lost_is_written_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    async with working(store.config) as worker:
        _fail_once(worker, monkeypatch, lambda events: isinstance(events[-1], RunCompleted), after_it=True)
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert await count_of(store, run_id, "RunCompleted") == 1


@pytest.mark.parametrize("after_it", [False, True], ids=["not sent", "answer lost"])
async def test_the_failure_of_an_unknown_flow_is_written_later(
    store: Store, monkeypatch: pytest.MonkeyPatch, after_it: bool
) -> None:
    run_id = await submitted(store, "unheard_of")
    async with working(store.config) as worker:
        _fail_once(worker, monkeypatch, lambda events: not isinstance(events[0], RunClaimed), after_it)
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        assert (await ended_as(store, run_id, "FAILED")).pyoco.reason == "flow_not_found"
        assert [letter["reason"] for letter in await letters(store)] == ["flow_not_found"]


async def test_a_broker_killed_in_the_middle_of_a_run_delays_it(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server)
    store = await Store.connect(config, name="test")
    started, go_on = threading.Event(), threading.Event()
    executed: list[str] = []

    def first() -> int:
        executed.append("first")
        started.set()
        await_signal(go_on)
        return 1

    def second() -> int:
        executed.append("second")
        return 2

    async with working(config, Flows(steps=chain(first, second))) as worker:
        run_id = await submitted(store, "steps")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        own_nats_server.kill()
        await until(lambda: not worker._store.is_connected)
        go_on.set()
        own_nats_server.start()
        assert await asyncio.wait_for(running, 30.0) == run_id
        await until(lambda: store.is_connected)
        await ended_as(store, run_id, "COMPLETED")
        assert executed == ["first", "second"]
        assert sum("RunClaimed" in commit for commit in await commits_of(store, run_id)) == 1
        other = await submitted(store, "noop")
        await until(lambda: worker.run_once(timeout=1.0))
        await ended_as(store, other, "COMPLETED")
    await store.close()


async def test_twenty_refusals_for_broker_trouble_fail_nobody(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every delivery that the broker grants is used up, and not once could a fresh job be asked for."""
    monkeypatch.setattr(claiming, "LOST_REPLY_SEC_MAX", 0.0)
    config = config_on(nats_server, owed_job_after_sec=0.5, housekeeping_interval_sec=0.1)
    store = await Store.connect(config, name="test")
    model = ReadModel(store.client, store.jetstream, config)
    await model.start()
    keeper = Housekeeper(store, model)
    flows = Flows()
    async with working(config, flows) as worker:
        run_id = await submitted(store)
        naks = _nak_without_delay(monkeypatch)
        with monkeypatch.context() as trouble:
            trouble.setattr(worker._store.runs, "append", _away)
            trouble.setattr(worker._store.runs, "load", _away)
            while len(naks) < config.consumer_max_deliver:
                assert await worker.run_once(timeout=20.0) is None
        assert len(naks) == 20
        assert await worker.run_once(timeout=0.2) is None, "the broker delivers it no more"
        assert (await status_of(store, run_id), flows.asked) == ("PENDING", [])
        keeper.start()
        assert await worker.run_once(timeout=20.0) == run_id
        await ended_as(store, run_id, "COMPLETED")
        run = await the_run(store, run_id)
        assert (run.losses, run.crashes, flows.asked) == (0, 0, ["noop"])
        assert await letters(store) == []
    await keeper.stop()
    await model.stop()
    await store.close()


async def test_a_consumer_deleted_under_a_run_neither_ends_nor_repeats_it(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    flows = Flows(slow=one_task(waiting(started, go_on)))
    async with working(store.config, flows, concurrency=2) as worker:
        serving = asyncio.create_task(worker.serve())
        slow = await submitted(store, "slow")
        await until(started.is_set)
        name = f"{store.config.consumer_prefix}_default"
        await store.jetstream.api(f"CONSUMER.DELETE.{store.config.work_stream}.{name}")
        others = [await submitted(store) for _ in range(3)]
        for run_id in others:
            await until(lambda run_id=run_id: _is_completed(store, run_id))  # type: ignore[misc]
        go_on.set()
        await queue_drained(store)
        await ended_as(store, slow, "COMPLETED")
        assert await count_of(store, slow, "RunClaimed") == 1
        assert sorted(flows.asked) == ["noop", "noop", "noop", "slow"]
        worker.stop()
        await asyncio.wait_for(serving, 10.0)


async def _is_completed(store: Store, run_id: str) -> bool:
    return await status_of(store, run_id) == "COMPLETED"


async def _away(*_: object, **__: object) -> None:
    raise Unavailable("The broker cannot be reached.")


def _nak_without_delay(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays that were asked for. Waiting for twenty of them would show nothing more."""
    nak, asked = Delivery.nak, []

    def at_once(delivery: Delivery, delay_sec: float = 0.0) -> bool:
        asked.append(delay_sec)
        return nak(delivery)

    monkeypatch.setattr(Delivery, "nak", at_once)
    return asked


def _fail_once(
    worker: PyocoNatsWorker,
    monkeypatch: pytest.MonkeyPatch,
    concerns: Callable[[Any], bool],
    after_it: bool = False,
) -> None:
    """The first append that is concerned raises Unavailable: before it is sent, or after it was answered."""
    runs = worker._store.runs
    append = runs.append
    failed: list[object] = []

    async def failing(at: Any, events: Any, commit_id: str, **more: Any) -> Any:
        if failed or not concerns(events):
            return await append(at, events, commit_id, **more)
        failed.append(events)
        if after_it:
            await append(at, events, commit_id, **more)
        raise Unavailable("The broker cannot be reached.")

    monkeypatch.setattr(runs, "append", failing)
