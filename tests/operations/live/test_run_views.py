"""A run as everybody sees it who looks at it: read once, followed without a gap, forgotten after the last."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyoco_server.errors import NotFound, Unavailable
from pyoco_server.lifecycle.commands import AddTag, CancelRun, ClaimRun, ConfirmCancelled, EraseRun
from pyoco_server.lifecycle.run import without_sizes
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.live import run_views
from pyoco_server.operations.live.run_views import RunViews
from pyoco_server.operations.runs.apply import apply
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import Backoff
from tests.conftest import until
from tests.store.making import begun, claimed, committed, submission, task_done

CLAIM = ClaimRun(worker_id="w1", instance_id="w1.aa", job_no=1)


@pytest.fixture
def views(store: Store, read_model: ReadModel) -> RunViews:
    return RunViews(store, read_model)


async def tag(store: Store, run_id: str, name: str) -> None:
    await apply(store, run_id, AddTag(tag=name, tags_max=10_000))


async def test_a_view_has_the_run_with_all_that_happens_to_it(store: Store, views: RunViews) -> None:
    born = await begun(store)
    view = await views.subscribe(born.run.run_id)
    at = await committed(store, born, claimed(), *task_done("a", 1_700_000_003.0))
    await until(lambda: view.stored.log_seq == at.log_seq)
    assert (without_sizes(view.stored.run), view.stored.commits) == (without_sizes(at.run), 2)
    views.unsubscribe(born.run.run_id, view)
    assert len(views) == 0


async def test_all_who_look_have_one_view_and_the_last_one_closes_it(
    store: Store, read_model: ReadModel, views: RunViews
) -> None:
    run_id = (await begun(store)).run.run_id
    entered = await asyncio.gather(*(views.subscribe(run_id) for _ in range(10)))
    assert len({id(view) for view in entered}) == 1
    for view in entered:
        assert run_id in read_model.notifications._followers
        views.unsubscribe(run_id, view)
    assert (len(views), read_model.notifications._followers) == (0, {})


async def test_what_is_not_there_or_not_ours_leaves_nothing_behind(
    store: Store, read_model: ReadModel, views: RunViews
) -> None:
    foreign = await begun(store, tenant_id="theirs")
    erased = await begun(store)
    await apply(store, erased.run.run_id, CancelRun())
    await apply(store, erased.run.run_id, EraseRun())
    for run_id in (submission().run_id, foreign.run.run_id, erased.run.run_id):
        with pytest.raises(NotFound):
            await views.subscribe(run_id, tenant_id="ours")
    view = await views.subscribe(foreign.run.run_id, tenant_id="theirs")
    with pytest.raises(NotFound):
        await views.subscribe(foreign.run.run_id, tenant_id="ours")
    views.unsubscribe(foreign.run.run_id, view)
    assert (len(views), read_model.notifications._followers) == (0, {})


async def test_whoever_hangs_up_while_it_is_opened_does_not_take_it_from_the_others(
    store: Store, views: RunViews
) -> None:
    run_id = (await begun(store)).run.run_id
    first, second = (asyncio.create_task(views.subscribe(run_id)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    view = await second
    assert view.stored.run.run_id == run_id
    views.unsubscribe(run_id, view)
    assert len(views) == 0


async def test_commits_that_come_while_it_is_read_are_not_lost(
    store: Store, read_model: ReadModel, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    load, release = store.runs.load, asyncio.Event()

    async def slow(run_id: str, **how: bool) -> StoredRun | None:
        found = await load(run_id, **how)
        await release.wait()
        return found

    monkeypatch.setattr(store.runs, "load", slow)
    entering = asyncio.create_task(views.subscribe(born.run.run_id))
    await until(lambda: read_model.notifications._followers)
    monkeypatch.setattr(store.runs, "load", load)
    await tag(store, born.run.run_id, "meanwhile")
    await read_model.catch_up()
    release.set()
    view = await entering
    assert view.stored.run.tags == ("default", "meanwhile")


async def test_a_gap_is_closed_by_reading_again(
    store: Store, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_views, "READ_AGAIN", Backoff(first_sec=0.01, longest_sec=0.01))
    born = await begun(store)
    view = await views.subscribe(born.run.run_id)
    view._stored = born  # as it was
    load, away = store.runs.load, [True, True]

    async def shaky(run_id: str, **how: bool) -> Any:
        if how.get("whole") and away:
            away.pop()
            raise Unavailable("away")
        return await load(run_id, **how)

    monkeypatch.setattr(store.runs, "load", shaky)
    view._read_model.notifications.unfollow(born.run.run_id, view._on_commit)
    await tag(store, born.run.run_id, "unheard")
    await view._read_model.catch_up()
    view._read_model.notifications.follow(born.run.run_id, view._on_commit)
    await tag(store, born.run.run_id, "heard")
    await apply(store, born.run.run_id, CancelRun())
    await until(lambda: view.stored.run.is_terminal)
    assert view.stored.run.tags == ("default", "unheard", "heard")
    assert away == []


async def test_a_log_that_is_read_again_changes_nothing(
    store: Store, read_model: ReadModel, views: RunViews
) -> None:
    born = await begun(store)
    await tag(store, born.run.run_id, "a")
    view = await views.subscribe(born.run.run_id)
    before, rings = view.stored, list[int]()
    view.attach(lambda: rings.append(1))
    read_model.wipe()
    await read_model.catch_up()
    assert view.stored is before
    assert rings == []


async def test_guests_are_told_of_the_first_change_at_once_and_of_the_end(
    store: Store, views: RunViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_views, "NOTIFY_INTERVAL_SEC", 3600.0)
    born = await begun(store)
    view = await views.subscribe(born.run.run_id)
    told: list[RunStatus] = []
    view.attach(lambda: told.append(view.stored.run.status))
    await apply(store, born.run.run_id, CLAIM)
    await until(lambda: told)
    for number in range(5):
        await tag(store, born.run.run_id, f"t{number}")
    assert told == [RunStatus.RUNNING]
    await apply(store, born.run.run_id, CancelRun())
    await apply(store, born.run.run_id, ConfirmCancelled(fence=1))
    await until(lambda: RunStatus.CANCELLED in told)
    assert told == [RunStatus.RUNNING, RunStatus.CANCELLED]


async def test_what_is_shown_is_made_once_for_a_state(store: Store, views: RunViews) -> None:
    born = await begun(store)
    view = await views.subscribe(born.run.run_id)
    made: list[int] = []

    def make(stored: StoredRun) -> bytes:
        made.append(stored.commits)
        return b"%d" % stored.commits

    assert [view.shown("a", make), view.shown("a", make), view.shown("b", make)] == [b"1"] * 3
    await tag(store, born.run.run_id, "x")
    await until(lambda: view.stored.commits == 2)
    assert view.shown("a", make) == b"2"
    assert made == [1, 1, 2]
