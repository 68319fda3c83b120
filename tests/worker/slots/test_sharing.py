"""Which runs share a slot: those of short flows, of one tenant and one edition, unless it is switched off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.lifecycle.commands import ReportLoss
from pyoco_server.lifecycle.status import LossCause, RunStatus, TaskStatus
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store import store as store_module
from pyoco_server.store.store import Store
from pyoco_server.worker import short_flows
from pyoco_server.worker.short_flows import ShortFlows
from pyoco_server.worker.slots import pool
from tests.conftest import until
from tests.faults.faulty_client import Faults, faulty
from tests.worker.slots.interleaving_stage import SPEC, Stage, patience
from tests.worker.slots.slot_stage import serving
from tests.worker.stage import the_run


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    with patience():
        yield


@pytest.fixture
def stage(store: Store, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(store, tmp_path)
    yield made
    made.gate.touch()


@pytest.fixture
def all_flows_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShortFlows, "stretch_sec", lambda *_: 0.000_01)


@pytest.fixture
def every_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine any code may take long."""
    monkeypatch.setattr(short_flows, "SHORT_SEC", 100.0)
    monkeypatch.setattr(pool, "WAIT_SEC_MAX", 1_000.0)


async def processes(stage: Stage, flow: str, count: int = 2, **settings: Any) -> int:
    """How many processes hold so many runs of the flow at once."""
    async with serving(replace(stage.store.config, **settings), slots=3, spec=SPEC):
        return await held_in(stage, flow, count)


async def held_in(stage: Stage, flow: str, count: int) -> int:
    before, stage_count = stage.count("first"), count
    run_ids = [await stage.start(flow, f"n{before}{number}") for number in range(count)]
    await until(lambda: stage.count("first") == before + stage_count)
    used = {line.split()[-1] for line in stage.marks.read_text().splitlines()[-count:]}
    stage.gate.touch()
    await stage.ended(*run_ids)
    stage.gate.unlink()
    return len(used)


@pytest.mark.usefixtures("every_time_is_short")
async def test_a_flow_shares_a_slot_once_it_is_known_to_be_short(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        assert await held_in(stage, "held", 3) == 3
        assert await held_in(stage, "held", 3) == 1


@pytest.mark.usefixtures("every_time_is_short")
async def test_a_flow_that_does_not_want_it_never_shares_a_slot(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        assert await held_in(stage, "private", 3) == 3
        assert await held_in(stage, "private", 3) == 3


@pytest.mark.usefixtures("every_time_is_short")
@pytest.mark.parametrize("flow", ["in_threads", "with_process", "past_python", "with_scratch"])
async def test_a_flow_that_could_harm_others_never_shares_a_slot(stage: Stage, flow: str) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        assert await held_in(stage, flow, 3) == 3
        assert await held_in(stage, flow, 3) == 3


@pytest.mark.usefixtures("all_flows_are_short")
async def test_the_setting_switches_it_off(stage: Stage) -> None:
    assert await processes(stage, "held", worker_interleaved_runs=1) == 2


@pytest.mark.usefixtures("all_flows_are_short")
async def test_a_slot_holds_no_more_runs_than_the_setting_allows(stage: Stage) -> None:
    assert await processes(stage, "held", 5, worker_interleaved_runs=2) == 3


@pytest.mark.usefixtures("all_flows_are_short")
async def test_tenants_never_share_a_slot(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = [await stage.start("held", f"n{name}{n}", name) for n in range(2) for name in ("a", "b")]
        await until(lambda: stage.count("first") == 4)
        stage.gate.touch()
        await stage.expect_unharmed(run_ids)
    by_tenant = {
        name: {line.split()[-1] for line in stage.marks.read_text().splitlines() if f" n{name}" in line}
        for name in ("a", "b")
    }
    assert by_tenant["a"].isdisjoint(by_tenant["b"])


@pytest.mark.usefixtures("all_flows_are_short")
async def test_runs_of_a_new_edition_do_not_join_those_of_the_old_one(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC) as worker:
        old = await stage.neighbours(2)
        old_pids = stage.pids("first")
        await worker.renew()
        new = [await stage.start("held", f"n_new{number}") for number in range(2)]
        await until(lambda: stage.count("first") == 4)
        assert stage.pids("first n_new").isdisjoint(old_pids)
        stage.gate.touch()
        await stage.expect_unharmed([*old, *new])


@pytest.mark.usefixtures("all_flows_are_short")
async def test_a_run_that_was_taken_over_leaves_and_the_others_stay(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        lost, *others = await stage.neighbours(4)
        await until(lambda: _has_checkpoint(stage.store, lost))
        loss = ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=20, crashes_max=3)
        await apply(stage.store, lost, loss)
        await until(lambda: _is_claimed_again(stage.store, lost))
        stage.gate.touch()
        for run in await stage.ended(*others):
            assert (run.status, run.job_no) == (RunStatus.COMPLETED, 1)
        (run,) = await stage.ended(lost)
        assert (run.status, run.losses) == (RunStatus.COMPLETED, 1)
    assert stage.count("first") == 4
    assert stage.count("second") == 4


async def _has_checkpoint(store: Store, run_id: str) -> bool:
    first = (await the_run(store, run_id)).tasks.get("first")
    return first is not None and first.state is TaskStatus.SUCCEEDED


async def _is_claimed_again(store: Store, run_id: str) -> bool:
    run = await the_run(store, run_id)
    return run.claim is not None and run.claim.fence == 2


@pytest.mark.usefixtures("all_flows_are_short")
async def test_runs_wait_together_while_the_broker_is_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults, patient = Faults(), replace(stage.store.config, worker_lease_sec=60.0)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "BrokerClient", faulty(faults))
        serve = serving(patient, slots=3, spec=SPEC)
        await serve.__aenter__()
    try:
        run_ids = await stage.neighbours()
        faults.is_partitioned = True
        stage.gate.touch()
        with suppress(AssertionError):  # all of them may wait for the broker already
            await until(lambda: stage.count("second") > 0, within_sec=1.0)
        faults.is_partitioned = False
        await stage.expect_unharmed(run_ids)
    finally:
        faults.is_partitioned = False
        await serve.__aexit__(None, None, None)
    assert len(stage.pids("second")) == 1
