"""Runs that start later: no job before their time, one job then, and a cancel meanwhile ends them."""

from __future__ import annotations

import time

import pytest

from pyoco_server.errors import Invalid
from pyoco_server.housekeeping import delayed_runs
from pyoco_server.housekeeping.delayed_runs import DelayedRuns
from pyoco_server.lifecycle.commands import CancelRun
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.housekeeping.test_owed_jobs import Clock
from tests.worker.stage import ended_as, jobs_queued, lawful, status_of, submitted, the_run, working

HOUR_SEC = 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(delayed_runs, "clock", fake)
    return fake


async def started(store: Store, read_model: ReadModel) -> int:
    await read_model.catch_up()
    return await DelayedRuns(store, read_model).look()


async def test_a_run_starts_when_its_time_has_come(store: Store, read_model: ReadModel, clock: Clock) -> None:
    run_id = await submitted(store, start_at=time.time() + HOUR_SEC)
    assert (await status_of(store, run_id), await jobs_queued(store)) == ("PENDING", 0)
    assert await started(store, read_model) == 0
    clock.ahead_sec = HOUR_SEC + 1
    assert await started(store, read_model) == 1
    assert await started(store, read_model) == 0
    assert await jobs_queued(store) == 1
    await lawful(store, run_id)
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
    await ended_as(store, run_id, "COMPLETED")


async def test_a_run_that_waits_for_its_time_owes_nobody_anything(
    store: Store, read_model: ReadModel
) -> None:
    await submitted(store, start_at=time.time() + HOUR_SEC)
    await read_model.catch_up()
    assert read_model.housekeeping.tags_that_owe() == []
    assert read_model.housekeeping.oldest_owed() == {}


async def test_a_cancel_before_its_time_is_the_end(store: Store, read_model: ReadModel, clock: Clock) -> None:
    run_id = await submitted(store, start_at=time.time() + HOUR_SEC)
    await apply(store, run_id, CancelRun())
    clock.ahead_sec = HOUR_SEC + 1
    assert await started(store, read_model) == 0
    await ended_as(store, run_id, "CANCELLED")
    again = await retry(store, run_id, RetryRequest(), ANONYMOUS)
    assert (await the_run(store, again.run.run_id)).start_at is None
    assert await jobs_queued(store) == 1


async def test_an_instant_in_the_past_is_now(store: Store) -> None:
    run_id = await submitted(store, start_at=time.time() - 1)
    assert (await the_run(store, run_id)).start_at is None
    assert await jobs_queued(store) == 1


async def test_an_instant_too_far_away_is_refused(store: Store) -> None:
    for start_at in (time.time() + 400 * 86_400, float("inf"), float("nan")):
        with pytest.raises(Invalid, match="start_at"):
            await submitted(store, start_at=start_at)
