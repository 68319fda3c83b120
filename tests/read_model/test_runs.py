"""Lists: own writes seen, nothing lost or doubled over restarts, and no waiting for what is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig, field_names
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream import ordered_consumer
from pyoco_server.lifecycle.events import (
    CancelRequested,
    Event,
    RunCompleted,
    RunDiscarded,
    RunErased,
    RunLost,
    RunParked,
)
from pyoco_server.lifecycle.run import Run, without_sizes
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.read_model import run_writer
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store import resources
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import (
    START,
    begun,
    claimed,
    committed,
    config_on,
    purge_log,
    submission,
    tagged,
    task_done,
)

Open = Callable[..., Awaitable["Counted"]]


class Counted(ReadModel):
    """A read model that counts what it is fed."""

    def __init__(self, store: Store, config: NatsBackendConfig) -> None:
        self.fed: list[int] = []
        super().__init__(store.client, store.jetstream, config)

    def _on_commit(self, run_id: str, seq: int, headers: bytes, data: bytes) -> None:
        self.fed.append(seq)
        super()._on_commit(run_id, seq, headers, data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def reopen(store: Store, path: Path) -> AsyncIterator[Open]:
    """A gateway's read model on one file; the one before is stopped first."""
    opened: list[Counted] = []

    async def again(*, stop_before: bool = True) -> Counted:
        if opened and stop_before:
            await opened[-1].stop()
        config = replaced(store.config, read_model_path=str(path))
        opened.append(Counted(store, config))
        await opened[-1].start()
        await opened[-1].catch_up()
        return opened[-1]

    yield again
    if opened:
        await opened[-1].stop()


def replaced(config: NatsBackendConfig, **changes: object) -> NatsBackendConfig:
    members = {name: getattr(config, name) for name in field_names()}
    return NatsBackendConfig(**(members | changes))


def ids(runs: list[Run]) -> list[str]:
    return [run.run_id for run in runs]


async def listed(model: ReadModel, wanted: Filter | None = None, limit: int = 100) -> list[str]:
    await model.catch_up()
    return ids(model.runs.page(wanted or Filter(), limit))


async def over(store: Store, at: StoredRun, *events: Event) -> StoredRun:
    return await committed(store, at, claimed(), *events, RunCompleted(at=START + 50))


async def test_whatever_was_written_before_a_list_is_in_it(other_store: Store, read_model: ReadModel) -> None:
    for number in range(30):
        at = await begun(other_store, at=START + 100 + number)
        assert (await listed(read_model))[0] == at.run.run_id
        at = await tagged(other_store, at, "mark")
        await read_model.catch_up()
        assert read_model.runs.page(Filter(), 1)[0].tags == at.run.tags


async def test_runs_come_newest_first_and_page_by_page(store: Store, read_model: ReadModel) -> None:
    made = [await begun(store, at=START + number // 3) for number in range(20)]
    await read_model.catch_up()
    found: list[Run] = []
    page, place = read_model.next_page(Filter(), 6, None)
    while place is not None:
        assert ids(page) == ids(sorted(page, key=lambda run: (run.updated_at, run.run_id), reverse=True))
        found += page
        page, place = read_model.next_page(Filter(), 6, place)
    found += page
    assert sorted(ids(found)) == sorted(stored.run.run_id for stored in made)
    assert [run.updated_at for run in found] == [stored.run.updated_at for stored in reversed(made)]
    assert read_model.runs.count() == 20


async def test_what_changed_while_somebody_paged_comes_at_the_end(
    store: Store, read_model: ReadModel
) -> None:
    made = [await begun(store, at=START + number) for number in range(6)]
    await read_model.catch_up()
    first, place = read_model.next_page(Filter(), 3, None)
    assert ids(first) == [stored.run.run_id for stored in reversed(made[3:])]
    shown, unseen = made[4], made[1]
    for stored in (shown, unseen):
        await committed(store, stored, claimed(at=START + 10))
    born = await begun(store, at=START + 20)
    await read_model.catch_up()
    rest: list[Run] = []
    while place is not None:
        page, place = read_model.next_page(Filter(), 2, place)
        rest += page
    expected = [made[2], made[0], born, unseen, shown]
    assert sorted(ids(rest)) == sorted(stored.run.run_id for stored in expected)
    assert {run.run_id: run.status for run in rest}[shown.run.run_id] == "RUNNING"


async def test_a_file_is_continued_with_its_clock(store: Store, reopen: Open) -> None:
    """A search by time goes by the latest clock there was, also before a restart."""
    model = await reopen()
    await begun(store, at=START + 100)
    await model.catch_up()
    model = await reopen()
    late = await begun(store, at=START)
    await model.catch_up()
    assert model._writer._clock == START + 100
    assert late.run.run_id not in await listed(model, Filter(updated_after=START + 50))
    assert len(await listed(model, Filter(updated_after=START + 50))) == 1


async def test_runs_are_found_by_status_flow_tag_tenant_and_time(store: Store, read_model: ReadModel) -> None:
    a = await begun(store, at=START, flow_name="x", tag="t", tenant_id="n")
    b = await begun(store, at=START + 1, flow_name="y", tag="t")
    c = await begun(store, at=START + 2, flow_name="x", tag="u", tenant_id="n")
    await committed(store, b, claimed(at=START + 10))
    assert await listed(read_model, Filter(status="RUNNING")) == [b.run.run_id]
    assert await listed(read_model, Filter(status="PENDING")) == [c.run.run_id, a.run.run_id]
    assert await listed(read_model, Filter(flow="x")) == [c.run.run_id, a.run.run_id]
    assert await listed(read_model, Filter(tag="t")) == [b.run.run_id, a.run.run_id]
    assert await listed(read_model, Filter(tenant="n", tag="u")) == [c.run.run_id]
    assert await listed(read_model, Filter(updated_after=START)) == [b.run.run_id, c.run.run_id]


async def test_a_summary_is_that_of_the_run_without_params_and_tasks(
    store: Store, read_model: ReadModel
) -> None:
    at = await committed(store, await begun(store), claimed(), *task_done("a", START + 3))
    await read_model.catch_up()
    (run,) = read_model.runs.page(Filter(), 9)
    assert run == replace(without_sizes(at.run), params={}, tasks={})


async def test_a_restart_goes_on_where_the_file_ends(store: Store, reopen: Open) -> None:
    first = await reopen()
    at = await tagged(store, await begun(store), "a", "b")
    await first.catch_up()
    assert first.fed == [1, 2, 3]
    second = await reopen()
    assert second.fed == []
    assert await listed(second) == [at.run.run_id]
    at = await tagged(store, at, "c")
    await second.catch_up()
    assert second.fed == [4]
    assert second.runs.page(Filter(), 1)[0].tags == at.run.tags


async def test_what_was_committed_while_it_was_away_is_read_once(store: Store, reopen: Open) -> None:
    first = await reopen()
    at = await begun(store)
    await first.catch_up()
    await first.stop()
    at = await over(store, at)
    second = await reopen()
    assert second.fed == [2]
    assert second.runs.page(Filter(), 1)[0].status == "COMPLETED"


async def test_a_gateway_that_was_killed_reads_again_only_what_its_file_lacks(
    store: Store, reopen: Open
) -> None:
    first = await reopen()
    at = await begun(store)
    await first.catch_up()
    first.runs.page(Filter(), 1)
    at = await tagged(store, at, "unflushed")
    await first.catch_up()
    first._writer._dirty.clear()  # killed before the next write
    first._writer.cancel_timer()
    second = await reopen()
    assert second.fed == [2]
    assert second.runs.page(Filter(), 1)[0].tags == at.run.tags


def wiped(path: Path) -> None:
    path.unlink()


def corrupt(path: Path) -> None:
    path.write_bytes(b"\x00garbage" * 999)


@pytest.mark.parametrize("damage", [wiped, corrupt])
async def test_a_file_that_cannot_be_used_is_filled_anew(
    store: Store, reopen: Open, path: Path, damage: Callable[[Path], None]
) -> None:
    first = await reopen()
    at = await tagged(store, await begun(store), "a")
    await first.catch_up()
    await first.stop()
    damage(path)
    second = await reopen()
    assert second.fed == [1, 2]
    assert await listed(second) == [at.run.run_id]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "of the future"),
        ("created", "1999-01-01T00:00:00Z"),
        ("fed_at", str(START)),
        ("position", "999999"),
    ],
    ids=["other schema", "stream made anew", "older than the marks of erased runs", "ahead of the log"],
)
async def test_a_file_that_does_not_fit_is_filled_anew(
    store: Store, reopen: Open, key: str, value: str
) -> None:
    first = await reopen()
    at = await tagged(store, await begun(store), "a")
    await first.catch_up()
    first.runs.page(Filter(), 1)
    first._table.write([], [], {key: value})
    second = await reopen()
    assert second.fed == [1, 2]
    assert await listed(second) == [at.run.run_id]


async def test_a_stream_that_was_made_anew_is_read_from_its_beginning(store: Store, reopen: Open) -> None:
    first = await reopen()
    await begun(store)
    await first.catch_up()
    await first.stop()
    await store.jetstream.api(f"STREAM.DELETE.{store.config.events_stream}")
    assert await resources.accept_lost_log(store.jetstream, store.config)
    at = await begun(store)
    second = await reopen()
    assert second.fed == [1]
    assert await listed(second) == [at.run.run_id]


async def test_everything_can_be_thrown_away_and_read_again(store: Store, reopen: Open) -> None:
    model = await reopen()
    made = [await begun(store, at=START + number) for number in range(5)]
    assert len(await listed(model)) == 5
    model.wipe()
    assert model.runs.count() == 0
    assert sorted(await listed(model)) == sorted(stored.run.run_id for stored in made)
    assert model.fed == [1, 2, 3, 4, 5] * 2


async def test_rows_that_could_not_be_written_are_written_later(
    store: Store, reopen: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await reopen()
    with monkeypatch.context() as patch:
        patch.setattr(model._table, "write", _disk_full)
        at = await begun(store)
        await model.catch_up()
        with pytest.raises(OSError, match="disk full"):
            model.runs.page(Filter(), 1)
    assert await listed(model) == [at.run.run_id]


def _disk_full(*_: object) -> None:
    raise OSError("disk full")


async def test_a_lost_consumer_costs_a_list_a_moment_and_no_more(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_consumer, "SILENCE_MAX_SEC", 3600.0)
    await begun(store)
    await read_model.catch_up()
    name = read_model.feed._name
    await store.jetstream.api(f"CONSUMER.DELETE.{store.config.events_stream}.{name}")
    at = await begun(store, at=START + 1)
    assert (await listed(read_model))[0] == at.run.run_id


async def test_lists_go_on_after_the_death_of_the_broker(own_nats_server: NatsServer) -> None:
    store = await Store.connect(config_on(own_nats_server), name="test")
    model = ReadModel(store.client, store.jetstream, store.config)
    await model.start()
    store.on_reconnect(model.feed.handle_reconnect)
    before = await begun(store)
    assert await listed(model) == [before.run.run_id]
    own_nats_server.kill()
    await until(lambda: not store.is_connected)
    with pytest.raises(Unavailable):
        await model.catch_up()
    assert ids(model.runs.page(Filter(), 9)) == [before.run.run_id]
    own_nats_server.start()
    await until(lambda: store.reconnects == 1)
    after = await begun(store, at=START + 1)
    assert await listed(model) == [after.run.run_id, before.run.run_id]
    await model.stop()
    await store.close()


async def test_a_list_that_cannot_be_caught_up_says_so_within_its_time(store: Store) -> None:
    model = ReadModel(store.client, store.jetstream, replaced(store.config, list_wait_sec=0.4))
    await model.start()
    await begun(store)
    await model.catch_up()
    await model.feed.stop()
    await tagged(store, await begun(store), "a")
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    with pytest.raises(Unavailable, match="2 commits to go"):
        await model.catch_up()
    assert loop.time() - began_at >= 0.4
    assert model.lag == 2
    await model.stop()


async def test_a_last_message_that_is_gone_does_not_block_lists(store: Store, read_model: ReadModel) -> None:
    """The mark of an erased run has vanished: the stream's last sequence has no message any more."""
    stays = await begun(store)
    gone = await begun(store, at=START + 1)
    await read_model.catch_up()
    late = ReadModel(store.client, store.jetstream, store.config)
    erased = await committed(store, await over(store, gone), RunErased(at=START + 60))
    await read_model.catch_up()
    assert read_model.feed.position == erased.log_seq
    await purge_log(store, gone.run.run_id)
    await late.start()
    assert await listed(late) == [stays.run.run_id]
    assert await listed(read_model) == [stays.run.run_id]
    await late.stop()


async def test_runs_that_are_gone_vanish_from_lists_also_from_a_file(store: Store, reopen: Open) -> None:
    model = await reopen()
    erased, discarded, stays = [await begun(store, at=START + n) for n in range(3)]
    assert len(await listed(model)) == 3
    await committed(store, await over(store, erased), RunErased(at=START + 60))
    await committed(store, discarded, RunDiscarded(at=START + 60, reason="no job"))
    assert await listed(model) == [stays.run.run_id]
    assert await listed(await reopen()) == [stays.run.run_id]


async def test_a_run_that_lives_again_after_its_mark_is_gone_is_listed(
    store: Store, read_model: ReadModel
) -> None:
    born = await begun(store)
    await committed(store, await over(store, born), RunErased(at=START + 60))
    assert await listed(read_model) == []
    await purge_log(store, born.run.run_id)
    await begun(store, run_id=born.run.run_id, flow_name="second")
    await read_model.catch_up()
    (run,) = read_model.runs.page(Filter(), 9)
    assert (run.flow_name, run.gone) == ("second", False)


async def test_commits_that_are_not_understood_do_not_stop_the_list(
    store: Store, read_model: ReadModel
) -> None:
    at = await begun(store)
    subject = f"{store.config.events_subject_prefix}.{at.run.run_id}"
    for data in (b"", b"\xff", b'{"events": [{"type": "TagAdded", "at": 1, "tag": "\xff"}]}', b"[" * 9_999):
        await store.jetstream.publish(subject, data)
    assert await listed(read_model) == [at.run.run_id]


async def test_runs_that_miss_their_job_are_found_oldest_first(store: Store, read_model: ReadModel) -> None:
    old, young = await begun(store, at=START), await begun(store, at=START + 5)
    running = await committed(store, await begun(store, at=START), claimed())
    lost = await committed(store, await begun(store, at=START), claimed(), lost_at(START + 3))
    parked = await committed(store, await begun(store, at=START), claimed(), RunParked(at=START + 2))
    await read_model.catch_up()
    assert ids(read_model.housekeeping.owed(old.run.tag, before=START + 5, limit=9)) == [
        old.run.run_id,
        lost.run.run_id,
        young.run.run_id,
    ]
    assert ids(read_model.housekeeping.owed(old.run.tag, before=START + 4, limit=1)) == [old.run.run_id]
    await over(store, replace(lost, run=lost.run))
    await committed(store, old, claimed())
    await read_model.catch_up()
    assert ids(read_model.housekeeping.owed(old.run.tag, before=START + 99, limit=9)) == [young.run.run_id]
    assert running.run.claim is not None
    assert parked.run.parked


def lost_at(at: float) -> RunLost:
    return RunLost(at=at, fence=1, cause=LossCause.WORKER_LOST)


async def test_runs_are_found_by_the_instance_that_holds_them(store: Store, read_model: ReadModel) -> None:
    a = await committed(store, await begun(store), claimed(instance_id="w1.aa"))
    b = await committed(store, await begun(store), claimed(instance_id="w2.bb"))
    await read_model.catch_up()
    assert read_model.housekeeping.claiming_instances() == {"w1.aa", "w2.bb"}
    assert ids(read_model.housekeeping.claimed_by("w1.aa", 9)) == [a.run.run_id]
    await committed(store, a, lost_at(START + 3))
    await committed(store, b, RunCompleted(at=START + 3))
    await read_model.catch_up()
    assert read_model.housekeeping.claiming_instances() == set()
    assert read_model.housekeeping.claimed_by("w1.aa", 9) == []


async def test_a_cancel_that_nobody_can_confirm_is_found(store: Store, read_model: ReadModel) -> None:
    """Asked to stop while claimed, and then its worker let go of it without ending it."""
    held = await committed(store, await begun(store), claimed(), CancelRequested(at=START + 2))
    stuck = await committed(
        store, await begun(store), claimed(), CancelRequested(at=START + 2), lost_at(START + 3)
    )
    await read_model.catch_up()
    assert ids(read_model.housekeeping.stuck_cancels(9)) == [stuck.run.run_id]
    assert held.run.claim is not None


async def test_followers_hear_of_their_run_until_they_ask_no_more(
    store: Store, read_model: ReadModel
) -> None:
    event = submission()
    heard: list[int] = []

    def follow(_seq: int, number: int, _events: Sequence[Event]) -> None:
        heard.append(number)

    read_model.notifications.follow(event.run_id, follow)
    at = await store.runs.create(event, "c1")
    await begun(store)
    at = await over(store, at)
    await read_model.catch_up()
    assert heard == [1, 2]
    read_model.notifications.unfollow(event.run_id, follow)
    await tagged(store, at, "late")
    await read_model.catch_up()
    assert len(heard) == 2


async def test_more_runs_than_are_kept_in_memory_are_all_there(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_writer, "CACHED_RUNS_MAX", 5)
    monkeypatch.setattr(run_writer, "DIRTY_MAX", 4)
    made = [await begun(store, at=START + n) for n in range(20)]
    await read_model.catch_up()
    for stored in made:
        await tagged(store, stored, "later")
    await read_model.catch_up()
    assert {run.tags for run in read_model.runs.page(Filter(), 99)} == {("default", "later")}
    assert read_model.runs.count() == 20


async def test_a_read_model_can_be_stopped_twice(store: Store) -> None:
    model = ReadModel(store.client, store.jetstream, store.config)
    await model.start()
    await model.stop()
    await model.stop()
