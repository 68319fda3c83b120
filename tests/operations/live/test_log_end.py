"""One question to the broker proves to several requests that the feed has delivered everything."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.lifecycle.commands import AddTag
from pyoco_server.operations.live.run_views import RunViews, wait_for_end
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.operations.live.waiting import HeldFeed, Reads, ended
from tests.store.making import begun


@pytest.fixture
def views(store: Store, read_model: ReadModel) -> RunViews:
    return RunViews(store, read_model)


async def test_requests_at_the_same_time_share_the_question(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [(await ended(store, read_model)).run.run_id for _ in range(3)] * 5
    reads = Reads(monkeypatch, store)
    await asyncio.gather(*(wait_for_end(views, run_id, timeout_sec=10) for run_id in ids))
    assert (reads.runs, reads.lasts) == (0, 1)


async def test_a_question_that_was_sent_before_the_request_is_not_its_proof(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [(await ended(store, read_model)).run.run_id for _ in range(2)]
    last_message, asked, may_answer = store.runs.last_message, asyncio.Event(), asyncio.Event()

    async def held(*, at_leader: bool) -> StoredMessage | None:
        answer = await last_message(at_leader=at_leader)
        asked.set()
        await may_answer.wait()
        return answer

    monkeypatch.setattr(store.runs, "last_message", held)
    early = asyncio.create_task(wait_for_end(views, first, timeout_sec=10))
    await asked.wait()
    HeldFeed(monkeypatch, read_model)
    await apply(other_store, second, AddTag(tag="seen", tags_max=10))
    late = asyncio.create_task(wait_for_end(views, second, timeout_sec=10))
    await asyncio.sleep(0)
    may_answer.set()
    assert (await early).run.run_id == first
    assert "seen" in (await late).run.tags


async def test_one_request_that_leaves_does_not_end_the_question_of_the_others(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    reads = Reads(monkeypatch, store)
    waiting = [asyncio.create_task(wait_for_end(views, at.run.run_id, timeout_sec=10)) for _ in range(2)]
    await until(lambda: reads.lasts)
    waiting[0].cancel()
    assert (await waiting[1]).log_seq == at.log_seq
    assert reads.runs == 0


async def test_another_message_at_the_same_sequence_is_no_proof(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that has lost its end, and has grown again."""
    at = await ended(store, read_model)
    last = await store.runs.last_message(at_leader=True)
    assert last is not None

    async def other(**_how: bool) -> StoredMessage:
        return last._replace(time="2020-01-01T00:00:00.5Z")

    monkeypatch.setattr(store.runs, "last_message", other)
    reads = Reads(monkeypatch, store)
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=10)).log_seq == at.log_seq
    assert (reads.runs, reads.lasts) == (1, 1)


async def test_with_several_copies_the_leader_is_asked(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    asked: list[bool] = []
    last_message = store.runs.last_message

    async def noted(*, at_leader: bool) -> StoredMessage | None:
        asked.append(at_leader)
        return await last_message(at_leader=at_leader)

    monkeypatch.setattr(store.runs, "last_message", noted)
    monkeypatch.setattr(Store, "has_copies", True)
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=10)).log_seq == at.log_seq
    assert asked == [True]


async def test_a_mark_at_the_end_of_the_log_is_no_message_of_a_run(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    monkeypatch.setitem(store.jetstream.replicas, store.config.events_stream, 3)
    assert await store.runs.is_latest(at.run.run_id, at)  # leaves a mark
    last = await store.runs.last_message(at_leader=True)
    assert last is not None
    assert last.seq > at.log_seq
    reads = Reads(monkeypatch, store)
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=10)).log_seq == at.log_seq
    assert (reads.runs, reads.lasts) == (0, 1)


async def test_a_feed_that_lags_is_not_waited_for_long(
    store: Store, other_store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await ended(store, read_model)
    HeldFeed(monkeypatch, read_model)
    await begun(other_store)
    reads = Reads(monkeypatch, store)
    assert (await wait_for_end(views, at.run.run_id, timeout_sec=600)).log_seq == at.log_seq
    assert (reads.runs, reads.lasts) == (1, 1)
