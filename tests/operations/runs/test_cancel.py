"""Asking a run to stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import ClaimRun, CompleteRun, ConfirmCancelled, EraseRun
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.live.run_views import RunViews
from pyoco_server.operations.logs import notices
from pyoco_server.operations.logs.notices import CANCELLED_UNCLAIMED, NOTE_WAIT_SEC
from pyoco_server.operations.logs.pages import LogPages, PageAsked
from pyoco_server.operations.logs.views import LogViews
from pyoco_server.operations.runs.apply import Reading, apply
from pyoco_server.operations.runs.cancel import as_requested, cancel_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.logs.writer import LogEntry
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.store.making import begun, submission

CLAIM = ClaimRun(worker_id="w1", instance_id="w1.aa", job_no=1)


async def test_a_run_that_nobody_has_is_over_at_once_and_shown_cancelling(store: Store) -> None:
    born = await begun(store)
    applied = await cancel_run(store, born.run.run_id, by="me", reason="why not")
    assert applied.after is not None
    assert applied.after.run.status is RunStatus.CANCELLED
    shown = as_requested(applied)
    assert (shown.run.status, shown.run.run_id) == (RunStatus.CANCELLING, born.run.run_id)
    assert len(await store.runs.events(born.run.run_id)) == 2


async def test_a_run_that_somebody_has_is_over_when_he_says_so(store: Store) -> None:
    born = await begun(store)
    await apply(store, born.run.run_id, CLAIM)
    applied = await cancel_run(store, born.run.run_id, by="me")
    assert as_requested(applied).run.status is RunStatus.CANCELLING
    snapshot = await store.runs.snapshots.get(born.run.run_id)
    assert snapshot is not None
    assert (snapshot.status, snapshot.cancel_requested_by) == (RunStatus.CANCELLING, "me")
    assert snapshot.cancel_requested_at is not None
    confirmed = await apply(store, born.run.run_id, ConfirmCancelled(fence=1))
    assert confirmed.after is not None
    assert confirmed.after.run.status is RunStatus.CANCELLED


async def test_asking_again_changes_nothing(store: Store) -> None:
    born = await begun(store)
    await apply(store, born.run.run_id, CLAIM)
    first = await cancel_run(store, born.run.run_id, by="me")
    second = await cancel_run(store, born.run.run_id, by="you")
    assert second.events == ()
    assert second.refused is None
    assert as_requested(second).run == as_requested(first).run


async def test_a_run_that_is_over_stays_as_it_ended(store: Store) -> None:
    born = await begun(store)
    await apply(store, born.run.run_id, CLAIM, CompleteRun(fence=1))
    applied = await cancel_run(store, born.run.run_id)
    assert applied.events == ()
    assert as_requested(applied).run.status is RunStatus.COMPLETED


async def test_an_end_and_a_cancel_at_once_agree_on_who_was_first(store: Store, other_store: Store) -> None:
    for _ in range(30):
        born = await begun(store)
        run_id = born.run.run_id
        held = (await apply(store, run_id, CLAIM)).after
        assert held is not None
        ended, cancelled = await asyncio.gather(
            apply(store, run_id, CompleteRun(fence=1), reading=Reading(held=held)),
            cancel_run(other_store, run_id),
        )
        found = await store.runs.load(run_id, at_leader=True)
        assert found is not None
        if ended.refused is None:
            assert (found.run.status, cancelled.events) == (RunStatus.COMPLETED, ())
        else:
            assert found.run.status is RunStatus.CANCELLING
            assert len(cancelled.events) == 1


async def test_a_run_that_is_not_there_or_gone_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await cancel_run(store, submission().run_id)
    born = await begun(store)
    await apply(store, born.run.run_id, CLAIM, CompleteRun(fence=1))
    await apply(store, born.run.run_id, EraseRun())
    with pytest.raises(NotFound):
        await cancel_run(store, born.run.run_id)


async def test_another_tenants_run_is_not_found_and_not_touched(store: Store) -> None:
    born = await begun(store, tenant_id="theirs")
    with pytest.raises(NotFound):
        await cancel_run(store, born.run.run_id, tenant_id="ours")
    assert len(await store.runs.events(born.run.run_id)) == 1
    applied = await cancel_run(store, born.run.run_id, tenant_id="theirs")
    assert applied.after is not None
    assert applied.after.run.status is RunStatus.CANCELLED


class SlowLogs:
    """The stream of the logs has no leader: nothing is answered until it has one."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_leader = asyncio.Event()
        append = store.logs.append

        async def wait_for_leader(*args: Any, **kwargs: Any) -> Any:
            await self.has_leader.wait()
            return await append(*args, **kwargs)

        monkeypatch.setattr(store.logs, "append", wait_for_leader)


async def entries(store: Store, run_id: str) -> list[LogEntry]:
    return await store.logs.entries(run_id)


async def test_a_cancel_does_not_wait_for_the_logs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    born, logs = await begun(store), SlowLogs(store, monkeypatch)
    started = asyncio.get_running_loop().time()
    applied = await cancel_run(store, born.run.run_id)
    assert asyncio.get_running_loop().time() - started < NOTE_WAIT_SEC + 1.0
    assert applied.after is not None
    assert applied.after.run.status is RunStatus.CANCELLED
    logs.has_leader.set()
    await until(lambda: entries(store, born.run.run_id))


async def test_the_log_is_complete_when_the_line_about_the_cancel_is_in_it(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    born, logs = await begun(store), SlowLogs(store, monkeypatch)
    run_id = born.run.run_id
    pages, run_views = LogPages(store), RunViews(store, read_model)
    log_views = LogViews(store, run_views)
    view = await log_views.subscribe(run_id)
    await cancel_run(store, run_id)
    ended = await store.runs.load(run_id)
    assert ended is not None
    await until(lambda: view.run_view.stored.run.is_terminal)
    page = await pages.read(ended, PageAsked(), caller="me")
    assert (page.lines, page.complete) == ([], False)
    assert not view.is_final
    logs.has_leader.set()
    await until(lambda: view.is_final)
    assert view.lines == 1
    page = await pages.read(ended, PageAsked(), caller="me")
    assert (len(page.lines), page.complete) == (1, True)
    log_views.unsubscribe(run_id, view)
    pages.close()


async def test_a_log_without_the_line_is_complete_after_a_moment(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "NOTICE_GRACE_SEC", 0.3)
    born, _ = await begun(store), SlowLogs(store, monkeypatch)
    await cancel_run(store, born.run.run_id)
    ended = await store.runs.load(born.run.run_id)
    assert ended is not None
    pages = LogPages(store)

    async def is_complete() -> bool:
        return (await pages.read(ended, PageAsked(), caller="me")).complete

    await until(is_complete)
    pages.close()


async def test_several_cancels_are_one_line_and_a_claim_in_between_none(store: Store) -> None:
    born, claimed = await begun(store), await begun(store)
    await asyncio.gather(*(cancel_run(store, born.run.run_id) for _ in range(5)))
    assert [entry.message for entry in await entries(store, born.run.run_id)] == [CANCELLED_UNCLAIMED]
    load = store.runs.load

    async def load_before_the_claim(run_id: str, **kwargs: Any) -> Any:
        stored = await load(run_id, **kwargs)
        if not kwargs.get("whole") and stored is not None and stored.run.claim is None:
            await apply(store, run_id, CLAIM, reading=Reading(held=stored))
        return stored

    store.runs.load = load_before_the_claim  # type: ignore[method-assign]
    await cancel_run(store, claimed.run.run_id)
    assert await entries(store, claimed.run.run_id) == []
