"""Of several housekeepers one does the work; who stops or dies is followed by another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import TooLarge, Unavailable
from pyoco_server.housekeeping import Housekeeper, lost_workers
from pyoco_server.housekeeping.keeper import KEY
from pyoco_server.jetstream.errors import AnswerLost
from pyoco_server.lifecycle.commands import ClaimRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import failures_by_loop
from tests.conftest import NatsServer, until
from tests.worker.stage import (
    Flows,
    config_on,
    count_of,
    ended_as,
    one_task,
    submitted,
    the_run,
    waiting,
    working,
)

QUICK = {"housekeeping_interval_sec": 0.1, "worker_lease_sec": 1.1, "worker_lease_interval_sec": 0.1}


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, **QUICK)


@asynccontextmanager
async def keeping(config: NatsBackendConfig) -> AsyncIterator[Housekeeper]:
    """A housekeeper as a gateway has it, with a connection of its own; not started."""
    store = await Store.connect(config, name="keeper")
    read_model = ReadModel(store.client, store.jetstream, config)
    await read_model.start()
    store.on_reconnect(read_model.feed.handle_reconnect)
    keeper = Housekeeper(store, read_model)
    try:
        yield keeper
    finally:
        await keeper.stop()
        await read_model.stop()
        await store.close()


async def test_only_one_of_two_holds_the_lease(config: NatsBackendConfig) -> None:
    async with keeping(config) as first, keeping(config) as second:
        for _ in range(5):
            await first.round()
            await second.round()
            assert (first.is_holder, second.is_holder) == (True, False)


async def test_of_many_who_begin_at_once_one_holds_it(config: NatsBackendConfig) -> None:
    async with keeping(config) as a, keeping(config) as b, keeping(config) as c:
        await asyncio.gather(*(keeper.round() for keeper in (a, b, c)))
        assert sorted(keeper.is_holder for keeper in (a, b, c)) == [False, False, True]


async def test_a_holder_that_stops_lets_go_at_once(config: NatsBackendConfig) -> None:
    async with keeping(config) as second:
        async with keeping(config) as first:
            await first.round()
            await second.round()
            assert not second.is_holder
        await second.round()
        assert second.is_holder


async def test_a_holder_that_dies_is_followed_when_its_lease_has_stood_still(
    config: NatsBackendConfig, store: Store
) -> None:
    async with keeping(config) as first, keeping(config) as second:
        await first.round()
        _, revision = await store.leases.read(KEY)
        began = asyncio.get_running_loop().time()
        second.start()  # and the first does nothing any more
        await until(lambda: second.is_holder and second._revision > revision)
        assert asyncio.get_running_loop().time() - began >= 1.0
        assert (await store.leases.read(KEY))[1] > revision
        # It comes back, finds the lease written by another, and steps down.
        await first.round()
        assert (first.is_holder, second.is_holder) == (False, True)


async def test_a_holder_whose_renewal_was_not_answered_goes_on_at_once(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keeping(config) as keeper:
        await keeper.round()
        write = keeper._store.leases.write

        async def write_unheard(*asked: Any, **options: Any) -> int:
            await write(*asked, **options)
            raise AnswerLost("the lease")

        with monkeypatch.context() as patch:
            patch.setattr(keeper._store.leases, "write", write_unheard)
            with pytest.raises(AnswerLost):
                await keeper.round()
        assert not keeper.is_holder
        await keeper.round()
        assert keeper.is_holder


async def test_stopping_twice_or_unstarted_is_harmless(config: NatsBackendConfig) -> None:
    async with keeping(config) as keeper:
        await keeper.stop()
        await keeper.stop()


async def test_a_started_keeper_takes_runs_from_a_lost_worker(
    config: NatsBackendConfig, store: Store
) -> None:
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))
    async with keeping(config) as keeper, working(config) as worker:
        keeper.start()
        serving = asyncio.create_task(worker.serve())
        await until(lambda: _is_over(store, run_id))
        worker.stop()
        await serving
    ended = await ended_as(store, run_id, "COMPLETED")
    assert (ended.worker_id, ended.pyoco.losses) == ("worker", 1)


async def test_a_keeper_that_follows_gives_everybody_a_whole_lease_again(
    config: NatsBackendConfig, store: Store
) -> None:
    """What it did not see with its own eyes does not count."""
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.quiet", job_no=1))
    async with keeping(config) as keeper:
        await keeper.round()
        assert keeper.is_holder
        assert (await the_run(store, run_id)).claim is not None


async def test_an_outage_of_the_broker_takes_over_nobody(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server, **QUICK)
    store = await Store.connect(config, name="test")
    started, go_on = threading.Event(), threading.Event()
    flows = Flows(slow=one_task(waiting(started, go_on)))
    async with keeping(config) as keeper, working(config, flows) as worker:
        keeper.start()
        await until(lambda: keeper.is_holder)
        run_id = await submitted(store, "slow")
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        own_nats_server.kill()
        await until(lambda: not worker._store.is_connected)
        # waits: the outage has to be longer than the lease, twice
        await asyncio.sleep(2.5)
        own_nats_server.start()
        await until(lambda: keeper.is_holder and store.is_connected)
        rounds = await _rounds(store)

        async def has_looked_for_a_lease_time() -> bool:
            return await _rounds(store) > rounds + 40

        await until(has_looked_for_a_lease_time)
        go_on.set()
        assert await asyncio.wait_for(running, 20.0) == run_id
        ended = await ended_as(store, run_id, "COMPLETED")
        assert (ended.pyoco.losses, await count_of(store, run_id, "RunClaimed")) == (0, 1)
    await store.close()


async def test_one_chore_that_fails_keeps_none_of_the_others_from_their_turn(
    config: NatsBackendConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stream without a leader used to reset the ages of all leases, round after round."""
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))
    async with keeping(config) as keeper:
        away = AsyncMock(side_effect=Unavailable("this stream has no leader"))
        monkeypatch.setattr(keeper._due_schedules, "_read_changes", away)
        monkeypatch.setattr(keeper._due_runs, "_set", Mock(side_effect=AssertionError("a defect")))
        keeper.start()
        await until(lambda: _is_free(store, run_id))
        await until(lambda: keeper.chores.failing() == ["due runs", "schedules"])
        reason = keeper.why_not()
    assert reason == "housekeeping fails: due runs (AssertionError); schedules (this stream has no leader)"
    failures = failures_by_loop()
    assert failures["housekeeping.schedules"] >= 3
    assert failures["housekeeping.due runs"] >= 3


async def test_a_holder_that_cannot_look_at_the_workers_says_so_and_is_relieved(
    config: NatsBackendConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))
    async with keeping(config) as sick, keeping(config) as healthy:
        monkeypatch.setattr(sick._lost_workers, "observe", AsyncMock(side_effect=ValueError("a defect")))
        sick.start()
        await until(lambda: sick.why_not() == "housekeeping fails: leases of workers (ValueError)")
        healthy.start()
        await until(lambda: _is_free(store, run_id))
        assert healthy.is_holder


async def test_a_holder_that_cannot_do_the_chores_is_relieved_by_one_that_can(
    config: NatsBackendConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))
    async with keeping(config) as sick, keeping(config) as healthy:
        broken = AsyncMock(side_effect=Unavailable("the index is on a full disk"))
        monkeypatch.setattr(sick._read_model, "catch_up", broken)
        sick.start()
        await until(lambda: sick.is_holder)
        healthy.start()
        await until(lambda: healthy.is_holder)
        await until(lambda: _is_free(store, run_id))
        await until(lambda: not sick.is_holder)
        assert healthy.why_not() is None
        await until(lambda: sick.why_not() is None)


async def test_the_sick_do_not_relieve_each_other_in_turns(
    config: NatsBackendConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keeping(config) as one, keeping(config) as other:
        for keeper in (one, other):
            broken = AsyncMock(side_effect=Unavailable("this stream has no leader"))
            monkeypatch.setattr(keeper._due_schedules, "_read_changes", broken)
        one.start()
        await until(lambda: one.chores.failing())
        other.start()
        await until(lambda: other.is_holder and other.chores.failing())
        holder = (await store.leases.read(KEY))[0]
        rounds = await _rounds(store)

        async def has_gone_on() -> bool:
            return await _rounds(store) > rounds + 30

        await until(has_gone_on)
        after = (await store.leases.read(KEY))[0]
        assert holder is not None
        assert after is not None
        assert (after.holder, after.failing) == (holder.holder, ["schedules"])
        await until(lambda: one.why_not() is not None)
        assert one.why_not() == "housekeeping fails on the gateway that does it: schedules"


async def test_one_run_that_cannot_be_taken_keeps_no_other_waiting(
    config: NatsBackendConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ids = [await submitted(store) for _ in range(3)]
    for run_id in run_ids:
        await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.dead", job_no=1))
    broken, *others = sorted(run_ids)

    async def apply_but_one(store: Store, run_id: str, *commands: Any, **options: Any) -> Any:
        if run_id == broken:
            raise TooLarge("this one does not fit")
        return await apply(store, run_id, *commands, **options)

    monkeypatch.setattr(lost_workers, "apply", apply_but_one)
    async with keeping(config) as keeper:
        keeper.start()
        for run_id in others:
            await until(lambda run_id=run_id: _is_free(store, run_id))  # type: ignore[misc]
        assert not await _is_free(store, broken)
        assert keeper.why_not() is None


async def _is_free(store: Store, run_id: str) -> bool:
    return (await the_run(store, run_id)).claim is None


async def _rounds(store: Store) -> int:
    """The revision of the keeper's lease grows with each of its rounds, and with other leases."""
    return (await store.leases.read(KEY))[1]


async def _is_over(store: Store, run_id: str) -> bool:
    return (await the_run(store, run_id)).is_terminal
