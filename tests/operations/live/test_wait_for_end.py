"""Waiting for the end of a run: answered from the feed, never with a state older than one shown before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.lifecycle.commands import AddTag, CancelRun, EraseRun
from pyoco_server.lifecycle.events import Event, RunCompleted, RunFailed, TaskFailed
from pyoco_server.lifecycle.run import without_sizes
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.live import freshness
from pyoco_server.operations.live.run_views import RunViews, wait_for_end
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.query import get_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.operations.live.waiting import DONE, HeldFeed, Reads, ended, fed
from tests.store.making import START, begun, claimed, committed, config_on, stand_still, task_done


@pytest.fixture
def views(store: Store, read_model: ReadModel) -> RunViews:
    return RunViews(store, read_model)


def shown(stored: StoredRun) -> bytes:
    return msgspec.json.encode(wire.snapshot(stored, records=True))


@pytest.mark.parametrize(
    "events",
    [
        (*task_done("a", START + 2), DONE),
        (RunCompleted(at=START + 4),),
        (
            TaskFailed(at=START + 3, task="b", attempt=1, started_at=START + 2, error="no", traceback="t"),
            RunFailed(at=START + 4, reason="task_failed", error="no", task="b"),
        ),
    ],
)
async def test_the_answer_has_the_bytes_of_a_read(
    store: Store, read_model: ReadModel, views: RunViews, events: tuple[Event, ...]
) -> None:
    at = await ended(store, read_model, *events)
    await store.runs.snapshots.project(at)
    run_id = at.run.run_id
    waited = await wait_for_end(views, run_id, timeout_sec=10)
    assert shown(waited) == shown(await get_run(store, run_id, whole=True))
    assert without_sizes(waited.run) == without_sizes((await get_run(store, run_id, whole=True)).run)


async def test_an_end_that_comes_after_other_submissions_needs_no_read(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "ASK_AFTER_SEC", 3600.0)
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    reads = Reads(monkeypatch, store)
    waiting = asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=20))
    await until(lambda: len(views))
    await begun(store)
    end = await committed(store, at, DONE)
    answer = await waiting
    assert (answer.run, answer.log_seq, answer.commits) == (without_sizes(end.run), end.log_seq, 3)
    assert (reads.runs, reads.lasts) == (0, 0)


async def test_alone_the_last_commit_is_asked_for_while_the_run_goes_on(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    reads = Reads(monkeypatch, store)
    waiting = asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=20))
    await until(lambda: reads.lasts)
    end = await committed(other_store, at, DONE)  # as a worker does
    assert (await waiting).log_seq == end.log_seq
    assert (reads.runs, reads.lasts) == (0, 1)


async def test_beside_others_that_wait_nothing_is_asked_before_the_end(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their clients submit more: then the sequence of a submission is the proof."""
    first = await fed(read_model, await committed(store, await begun(store), claimed()))
    second = await fed(read_model, await committed(store, await begun(store), claimed()))
    asked: list[object] = []
    monkeypatch.setattr(freshness.FreshnessCheck, "prepare_soon", lambda check: asked.append(check))
    reads = Reads(monkeypatch, store)
    ids = [at.run.run_id for at in (first, second)]
    waiting = [asyncio.create_task(wait_for_end(views, run_id, timeout_sec=20)) for run_id in ids]
    await until(lambda: len(views) == 2)
    assert len(asked) == 1
    ends = [await committed(other_store, at, DONE) for at in (first, second)]
    assert [answer.log_seq for answer in await asyncio.gather(*waiting)] == [end.log_seq for end in ends]
    assert reads.runs == 0
    assert reads.lasts in (1, 2)


async def test_a_wait_folds_nothing_before_the_end(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    found: list[str] = []
    find = read_model.recent.find

    def noted(run_id: str) -> StoredRun | None:
        found.append(run_id)
        return find(run_id)

    monkeypatch.setattr(read_model.recent, "find", noted)
    waiting = asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=20))
    await until(lambda: len(views))
    at = await fed(read_model, await committed(store, at, *task_done("a", START + 2)))
    assert found == []
    await committed(store, at, DONE)
    assert list((await waiting).run.tasks) == ["a"]
    assert found == [at.run.run_id]
    assert read_model.notifications._followers_of_end == {}


async def test_a_run_of_another_tenant_is_not_waited_for(
    store: Store, read_model: ReadModel, views: RunViews
) -> None:
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    with pytest.raises(NotFound):
        await wait_for_end(views, at.run.run_id, timeout_sec=20, tenant_id="other")


async def test_a_run_that_had_ended_is_confirmed_by_one_read(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    reads = Reads(monkeypatch, store)
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=10)).log_seq == at.log_seq
    assert (reads.runs, reads.lasts) == (0, 1)


async def test_a_run_erased_at_another_gateway_is_not_shown_while_the_feed_lags(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    HeldFeed(monkeypatch, read_model)
    await apply(other_store, at.run.run_id, EraseRun())
    await begun(store)  # a submission of this gateway proves nothing about what it has not received
    with pytest.raises(NotFound):
        await wait_for_end(views, at.run.run_id, timeout_sec=10)
    assert len(views) == 0


async def test_a_change_at_another_gateway_is_shown_while_the_feed_lags(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    HeldFeed(monkeypatch, read_model)
    await apply(other_store, at.run.run_id, AddTag(tag="seen", tags_max=10))
    assert "seen" in (await wait_for_end(views, at.run.run_id, timeout_sec=10)).run.tags


async def test_a_cancel_accepted_at_another_gateway_is_shown_at_the_timeout(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    HeldFeed(monkeypatch, read_model)
    await apply(other_store, at.run.run_id, CancelRun())
    answer = await wait_for_end(views, at.run.run_id, timeout_sec=0.01)
    assert answer.run.status is RunStatus.CANCELLING


async def test_who_joins_a_view_that_lags_is_not_shown_what_it_has(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    first = await views.subscribe(at.run.run_id)  # read, and shared
    HeldFeed(monkeypatch, read_model)
    await apply(other_store, at.run.run_id, CancelRun())
    assert first.stored.run.cancel is None
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=0.01)).run.cancel is not None
    views.unsubscribe(at.run.run_id, first)


async def test_an_old_end_that_arrives_late_is_not_taken_for_the_latest_state(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is pushed during the request, but the run was erased before it, and that is still to come."""
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    held = HeldFeed(monkeypatch, read_model)
    await committed(store, at, DONE)
    await apply(other_store, at.run.run_id, EraseRun())
    waiting = asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=20))
    await until(lambda: len(views))
    await begun(store)
    await until(lambda: len(held._held) >= 3)
    held._held[:] = held._held[:1]  # only the end
    held.release()
    with pytest.raises(NotFound):
        await waiting


async def test_a_watcher_that_joins_a_waiting_request_gets_a_state_that_was_read(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    HeldFeed(monkeypatch, read_model)
    waiting = asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=20))
    await until(lambda: len(views))
    await apply(other_store, at.run.run_id, CancelRun())
    watched = await views.subscribe(at.run.run_id)
    assert watched.stored.run.cancel is not None
    views.unsubscribe(at.run.run_id, watched)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert len(views) == 0


async def test_a_feed_that_is_not_verified_is_not_used(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    reads = Reads(monkeypatch, store)
    monkeypatch.setattr(read_model.feed, "_verified_on", None)
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=10)).log_seq == at.log_seq
    assert (reads.runs, reads.lasts) == (1, 0)


async def test_a_gateway_that_was_restarted_reads(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    second = ReadModel(store.client, store.jetstream, store.config)
    await second.start()
    try:
        await second.catch_up()
        assert second.recent.find(at.run.run_id) is None
        reads = Reads(monkeypatch, store)
        assert (await wait_for_end(RunViews(store, second), at.run.run_id, timeout_sec=9)).run == at.run
        assert (reads.runs, reads.lasts) == (1, 0)
    finally:
        await second.stop()


async def test_a_connection_that_broke_during_the_wait_proves_nothing(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    reads = Reads(monkeypatch, store)
    waiting = asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=20))
    await until(lambda: len(views))
    await begun(store)
    store.runs.sent_commits.forget()  # what a loss of the connection does
    end = await committed(store, at, DONE)
    assert (await waiting).log_seq == end.log_seq
    assert reads.runs == 1


@pytest.fixture
async def own(own_nats_server: NatsServer) -> AsyncIterator[tuple[Store, ReadModel, RunViews]]:
    """A gateway at a broker that the test may stop."""
    store = await Store.connect(config_on(own_nats_server, broker_timeout_sec=2.0), name="own")
    read_model = ReadModel(store.client, store.jetstream, store.config)
    views = RunViews(store, read_model)
    await read_model.start()
    await views.start()
    store.on_reconnect(read_model.handle_reconnect)
    store.on_reconnect(views.handle_reconnect)
    await read_model.catch_up()
    yield store, read_model, views
    await views.stop()
    await read_model.stop()
    await store.close()


async def test_without_a_broker_nothing_is_answered_from_memory(
    own_nats_server: NatsServer, own: tuple[Store, ReadModel, RunViews]
) -> None:
    store, read_model, views = own
    at = await ended(store, read_model)
    await stand_still(own_nats_server)
    try:
        with pytest.raises(Unavailable):
            await wait_for_end(views, at.run.run_id, timeout_sec=10)
    finally:
        own_nats_server.resume()
    assert len(views) == 0
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=10)).log_seq == at.log_seq


async def test_an_end_stored_after_the_broker_was_restarted_ends_the_wait(
    own_nats_server: NatsServer, own: tuple[Store, ReadModel, RunViews]
) -> None:
    store, read_model, views = own
    at = await fed(read_model, await committed(store, await begun(store), claimed()))
    waiting = asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=60))
    await until(lambda: len(views))
    own_nats_server.stop()
    own_nats_server.start()
    await until(lambda: store.reconnects and store.why_not_ready is None)
    end = await until_committed(store, at)
    answer = await waiting
    assert answer.log_seq == end.log_seq
    assert shown(answer) == shown(await get_run(store, at.run.run_id, whole=True))


async def until_committed(store: Store, at: StoredRun) -> StoredRun:
    while True:
        try:
            return await committed(store, at, DONE)
        except Unavailable:
            await asyncio.sleep(0.05)
