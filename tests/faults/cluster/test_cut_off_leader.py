"""A node that is cut off from its cluster still answers reads as a leader: that decides nothing.

On one broker the answers of such a node are imitated, so that the moment is certain; on three, its routes are
cut.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.clock import elapsed
from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.lifecycle.commands import AddTag
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.runs.erase import StillLive, erase_run
from pyoco_server.operations.runs.query import get_run
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.faults.cluster.copies import with_copies
from tests.faults.cluster.routed_cluster import RoutedCluster, routed_cluster
from tests.faults.faulty_client import Fault, Faults
from tests.promises.cluster.test_lost_leader import config_at
from tests.worker.stage import submitted

READ = re.compile(r"^\$JS\.API\.(STREAM\.MSG\.GET|DIRECT\.GET)\.")
COMMIT = re.compile(r"^[^$]*\.events\.")
ALWAYS = 10_000
ROUNDS_MAX = 3


@pytest.fixture
def cut_off(faulty_store: Store, faults: Faults) -> Store:
    """Connected to a node that knows nothing of what the others have stored, and gets no majority."""
    with_copies(faulty_store)
    faults.add(READ, Fault.NO_MESSAGE, times=ALWAYS)
    faults.add(COMMIT, Fault.LOSE_REQUEST, times=ALWAYS)
    return faulty_store


async def test_a_run_that_a_majority_has_is_never_said_to_be_unknown(store: Store, cut_off: Store) -> None:
    run_id = await submitted(store)
    with pytest.raises(Unavailable):
        await get_run(cut_off, run_id)
    with pytest.raises(Unavailable):
        await cancel_run(cut_off, run_id)
    with pytest.raises(Unavailable):
        await erase_run(cut_off, run_id, by=None, tenant_id=None)
    with pytest.raises(Unavailable):
        await apply(cut_off, run_id, AddTag(tag="late", tags_max=10))


async def test_a_read_is_repeated_where_only_the_reader_was_behind(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    with_copies(faulty_store)
    run_id = await submitted(store)
    faults.add(READ, Fault.NO_MESSAGE, times=2)  # the snapshot and the last commit
    assert (await get_run(faulty_store, run_id)).run.run_id == run_id


async def test_an_old_state_is_no_reason_to_refuse(store: Store, faulty_store: Store, faults: Faults) -> None:
    """The reader sees a run under way; a majority knows that it is over."""
    with_copies(faulty_store)
    run_id = await submitted(store)
    old = await faulty_store.runs.load(run_id, at_leader=True)
    await cancel_run(store, run_id)
    assert not await faulty_store.runs.is_latest(run_id, old)
    faults.add(COMMIT, Fault.LOSE_REQUEST, times=ALWAYS)
    with pytest.raises(Unavailable):
        await faulty_store.runs.load_confirmed(run_id)


async def test_a_schedule_that_a_majority_may_have_is_not_said_to_be_unknown(
    faulty_store: Store, faults: Faults
) -> None:
    with_copies(faulty_store)
    assert await faulty_store.schedules.get("nightly") is None
    faults.add(re.compile(r"^\$KV\."), Fault.LOSE_REQUEST, times=ALWAYS)
    with pytest.raises(Unavailable):
        await faulty_store.schedules.get("nightly")


async def test_marks_are_read_by_nobody_and_do_not_add_up(store: Store) -> None:
    """One stays per stream; lists, feeds and the ids of runs pass over it."""
    with_copies(store)
    run_id = await submitted(store)
    model = ReadModel(store.client, store.jetstream, store.config)
    await model.start()
    for number in range(5):
        with pytest.raises(NotFound):
            await get_run(store, f"unknown-{number}")
    await model.catch_up()
    assert model.runs.count() == 1
    assert not model.feed.stream_position.dump()["steps"].count("$confirm")
    assert [found async for found in store.runs.ids()] == [run_id]
    info = await store.jetstream.api(f"STREAM.INFO.{store.config.events_stream}")
    assert info["state"]["messages"] == 2
    await model.stop()


async def test_a_mark_does_not_make_a_reader_begin_again(store: Store) -> None:
    """The commit that it has read last was erased, and a mark stands before it."""
    with_copies(store)
    model = ReadModel(store.client, store.jetstream, store.config)
    await model.start()
    kept = await submitted(store)
    with pytest.raises(NotFound):
        await get_run(store, "unknown")
    erased = await submitted(store)
    await cancel_run(store, erased)
    await model.catch_up()
    stream_position = model.feed.stream_position
    await erase_run(store, erased, by=None, tenant_id=None)
    info = await store.jetstream.stream_info(store.config.events_stream)
    prefix = store.config.events_subject_prefix
    assert await stream_position.stands(store.jetstream, store.config.events_stream, f"{prefix}.>", info)
    await model.catch_up()
    assert model.find(kept) is not None
    await model.stop()


async def test_a_list_is_complete_where_the_last_commit_is_gone_and_a_mark_stands_before_it(
    store: Store,
) -> None:
    """The end of the log was erased, and its mark has expired: nothing is left that could be read."""
    with_copies(store)
    kept = await submitted(store)
    with pytest.raises(NotFound):
        await get_run(store, "unknown")
    gone = f"{store.config.events_subject_prefix}.{await submitted(store)}"
    await store.jetstream.api(f"STREAM.PURGE.{store.config.events_stream}", {"filter": gone})
    model = ReadModel(store.client, store.jetstream, store.config)
    await model.start()
    await model.catch_up()
    assert model.find(kept) is not None
    await model.stop()


async def test_one_copy_is_believed_without_a_write(store: Store) -> None:
    before = await store.jetstream.last_seq(store.config.events_stream)
    with pytest.raises(NotFound):
        await get_run(store, "unknown")
    assert await store.jetstream.last_seq(store.config.events_stream) == before


@pytest.mark.slow
async def test_a_leader_without_routes_is_not_believed(tmp_path: Path) -> None:
    async with routed_cluster(tmp_path) as brokers:
        await brokers.ready()
        made = await Store.connect(config_at(brokers.url, broker_timeout_sec=0.5), name="maker")
        for _ in range(ROUNDS_MAX):
            if await _one_round(brokers, made):
                break  # the former leader still answered reads when the new one had stored a run
        await made.close()


async def _one_round(brokers: RoutedCluster, made: Store) -> bool:
    stream, prefix = made.config.events_stream, made.config.events_subject_prefix
    leader = await brokers.leader_of(stream)
    other = next(member for member in brokers.members if member is not leader)
    # Each knows one node only, so that no one leaves for another.
    inside = await Store.connect(replace(made.config, nats_url=leader.url), name="inside")
    outside = await Store.connect(replace(made.config, nats_url=other.url), name="outside")
    live = (await submit(outside, Submission(flow_name="five"))).run.run_id
    heal = brokers.routes.cut(leader)
    try:
        run_id = await _submitted_when_elected(outside)
        await cancel_run(outside, live)
        found = await asyncio.gather(
            inside.jetstream.last_at_leader(stream, f"{prefix}.{run_id}"), return_exceptions=True
        )
        with pytest.raises(Unavailable):
            await get_run(inside, run_id)
        with pytest.raises(Unavailable):
            await erase_run(inside, live, by=None, tenant_id=None)  # not StillLive: it is over
        with pytest.raises(Unavailable):
            await retry(inside, live, RetryRequest(), ANONYMOUS)
    finally:
        heal()
    await until(lambda: _is_shown(inside, run_id), within_sec=60, every_sec=0.2)
    assert (await get_run(inside, live)).run.status is RunStatus.CANCELLED
    with pytest.raises(StillLive):
        await erase_run(inside, run_id, by=None, tenant_id=None)
    await inside.close()
    await outside.close()
    return found[0] is None


async def _submitted_when_elected(store: Store) -> str:
    deadline = elapsed() + 60
    while True:
        try:
            return (await submit(store, Submission(flow_name="five"))).run.run_id
        except Unavailable:
            assert elapsed() < deadline
            await asyncio.sleep(0.1)


async def _is_shown(store: Store, run_id: str) -> bool:
    try:
        return (await get_run(store, run_id)).run.run_id == run_id
    except Unavailable:
        return False
