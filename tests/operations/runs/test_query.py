"""Reading runs: as the log has them, and only one's own."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import ClaimRun, CompleteRun, DiscardRun, EraseRun
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.live.run_views import RunViews, wait_for_end
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.query import get_many, get_run, list_runs
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.store.making import START, begun, submission

CLAIM = ClaimRun(worker_id="w1", instance_id="w1.aa", job_no=1)
DONE = CompleteRun(fence=1)


async def test_a_run_is_shown_as_its_last_commit_left_it(store: Store, other_store: Store) -> None:
    born = await begun(store)
    await apply(store, born.run.run_id, CLAIM, project=False)
    assert (await get_run(other_store, born.run.run_id)).run.status is RunStatus.RUNNING


async def test_not_found_is_only_said_after_a_look_at_the_leader(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    asked: list[bool] = []
    load = store.runs.load

    async def lagging(run_id: str, *, at_leader: bool = False, whole: bool = False) -> StoredRun | None:
        """A replica that has not got it yet."""
        asked.append(at_leader)
        return await load(run_id, at_leader=True, whole=whole) if at_leader else None

    monkeypatch.setattr(store.runs, "load", lagging)
    assert (await get_run(store, born.run.run_id)).run == born.run
    with pytest.raises(NotFound):
        await get_run(store, submission().run_id)
    assert asked == [False, True, False, True]


async def test_where_there_are_copies_none_of_them_is_believed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that lags would show a run as it was before its cancel, to the very caller who cancelled it."""
    born = await begun(store)
    load = store.runs.load

    async def lagging(run_id: str, *, at_leader: bool = False, whole: bool = False) -> StoredRun | None:
        return await load(run_id, at_leader=True, whole=whole) if at_leader else born

    await apply(store, born.run.run_id, CLAIM)
    monkeypatch.setattr(store.runs, "load", lagging)
    # As the broker has it. The setting says 1: it counts for streams that are created, not for these.
    monkeypatch.setitem(store.jetstream.replicas, store.config.events_stream, 3)
    assert store.config.nats_replicas == 1
    assert (await get_run(store, born.run.run_id)).run.status is RunStatus.RUNNING
    assert [run.run.status for run in await get_many(store, [born.run.run_id])] == [RunStatus.RUNNING]


async def test_how_many_copies_there_are_is_what_the_broker_says(store: Store) -> None:
    stream = store.config.events_stream
    assert store.jetstream.replicas[stream] == 1
    assert not store.has_copies
    store.jetstream.replicas[stream] = 3
    await store.jetstream.last_seq(stream)
    assert not store.has_copies


async def test_erased_discarded_and_foreign_runs_are_not_found(store: Store) -> None:
    erased, discarded = await begun(store), await begun(store)
    foreign = await begun(store, tenant_id="theirs")
    await apply(store, erased.run.run_id, CLAIM, DONE)
    await apply(store, erased.run.run_id, EraseRun())
    await apply(store, discarded.run.run_id, DiscardRun(reason="no job"))
    for stored in (erased, discarded, foreign):
        with pytest.raises(NotFound):
            await get_run(store, stored.run.run_id, tenant_id="ours")
    for run_id in ("*", ">", "a b", "x\r\nPUB y 0\r\n"):
        with pytest.raises(NotFound):
            await get_run(store, run_id)
    assert (await get_run(store, foreign.run.run_id, tenant_id="theirs")).run == foreign.run
    assert await get_many(store, [erased.run.run_id, foreign.run.run_id, "nobody"]) == [
        await get_run(store, foreign.run.run_id)
    ]


async def test_a_list_has_what_was_just_written(
    store: Store, other_store: Store, read_model: ReadModel
) -> None:
    for number in range(10):
        born = await begun(other_store, at=START + number)
        assert (await list_runs(read_model, Filter(), 1))[0].run_id == born.run.run_id


async def test_whoever_waits_for_an_end_is_told_at_once(
    store: Store, other_store: Store, read_model: ReadModel
) -> None:
    born, views = await begun(store), RunViews(store, read_model)
    waiting = asyncio.create_task(wait_for_end(views, born.run.run_id, timeout_sec=3600.0))
    await until(lambda: len(views))
    await apply(other_store, born.run.run_id, CLAIM)
    await apply(other_store, born.run.run_id, DONE)
    async with asyncio.timeout(10):
        assert (await waiting).run.status is RunStatus.COMPLETED
    assert len(views) == 0
    assert (read_model.notifications._followers, read_model.notifications._followers_of_end) == ({}, {})


async def test_whoever_waits_too_long_is_shown_what_there_is(store: Store, read_model: ReadModel) -> None:
    born = await begun(store)
    found = await wait_for_end(RunViews(store, read_model), born.run.run_id, timeout_sec=0.05)
    assert found.run.status is RunStatus.PENDING
    await apply(store, born.run.run_id, CLAIM, DONE)
    assert (await wait_for_end(RunViews(store, read_model), born.run.run_id, timeout_sec=0.0)).run.is_terminal
    with pytest.raises(NotFound):
        await wait_for_end(RunViews(store, read_model), submission().run_id, timeout_sec=1.0)
    assert read_model.notifications._followers == {}
