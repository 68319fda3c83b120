"""Asking a run to stop."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import ClaimRun, CompleteRun, ConfirmCancelled, EraseRun
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.apply import apply
from pyoco_server.operations.cancel import as_asked, cancel_run
from pyoco_server.store.store import Store
from tests.store.making import begun, submission

CLAIM = ClaimRun(worker_id="w1", instance_id="w1.aa", job_no=1)


async def test_a_run_that_nobody_has_is_over_at_once_and_shown_cancelling(store: Store) -> None:
    born = await begun(store)
    applied = await cancel_run(store, born.run.run_id, by="me", reason="why not")
    assert applied.after is not None
    assert applied.after.run.status is RunStatus.CANCELLED
    shown = as_asked(applied)
    assert (shown.run.status, shown.run.run_id) == (RunStatus.CANCELLING, born.run.run_id)
    assert len(await store.runs.events(born.run.run_id)) == 2


async def test_a_run_that_somebody_has_is_over_when_he_says_so(store: Store) -> None:
    born = await begun(store)
    await apply(store, born.run.run_id, CLAIM)
    applied = await cancel_run(store, born.run.run_id, by="me")
    assert as_asked(applied).run.status is RunStatus.CANCELLING
    snapshot = await store.runs.snapshot(born.run.run_id)
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
    assert as_asked(second).run == as_asked(first).run


async def test_a_run_that_is_over_stays_as_it_ended(store: Store) -> None:
    born = await begun(store)
    await apply(store, born.run.run_id, CLAIM, CompleteRun(fence=1))
    applied = await cancel_run(store, born.run.run_id)
    assert applied.events == ()
    assert as_asked(applied).run.status is RunStatus.COMPLETED


async def test_an_end_and_a_cancel_at_once_agree_on_who_was_first(store: Store, other_store: Store) -> None:
    for _ in range(30):
        born = await begun(store)
        run_id = born.run.run_id
        held = (await apply(store, run_id, CLAIM)).after
        assert held is not None
        ended, cancelled = await asyncio.gather(
            apply(store, run_id, CompleteRun(fence=1), held=held), cancel_run(other_store, run_id)
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
