"""Runs that share a slot: what happens to one of them does not happen to the others."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.store.store import Store
from pyoco_server.worker.short_flows import ShortFlows
from pyoco_server.worker.slots import slot_runs
from tests.conftest import NatsServer, config_for, until
from tests.worker.slots.interleaving_stage import NEIGHBOURS, SPEC, Stage, patience
from tests.worker.slots.slot_stage import ended, lines, serving, started
from tests.worker.wait_stage import resume, until_parked


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server, cancel_grace_period_sec=0.3)


@pytest.fixture(autouse=True)
def all_flows_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without measuring them first. On a busy machine no flow may be short."""
    monkeypatch.setattr(ShortFlows, "stretch_sec", lambda *_: 0.000_01)


@pytest.fixture
def patient() -> Iterator[pytest.MonkeyPatch]:
    with patience() as patch:
        yield patch


@pytest.fixture
def stage(store: Store, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(store, tmp_path)
    yield made
    made.gate.touch()


@pytest.mark.usefixtures("patient")
async def test_runs_of_short_flows_share_a_process(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await stage.neighbours()
        assert len(stage.pids("first")) == 1
        stage.gate.touch()
        await stage.expect_unharmed(run_ids)
    assert len(stage.pids("second")) == 1


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("flow", ["exits", "killed", "segfault"])
async def test_only_the_run_that_ended_the_process_counts_as_crashed(stage: Stage, flow: str) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await stage.neighbours()
        crashing = await stage.start(flow)
        pid = await stage.marked("acted")
        assert stage.pids("first") == {pid}
        (run,) = await stage.ended(crashing)
        assert (run.status, run.crashes, run.losses) == (RunStatus.COMPLETED, 1, 0)
        stage.gate.touch()
        await stage.expect_unharmed(run_ids)


@pytest.mark.usefixtures("patient")
async def test_a_process_killed_from_outside_costs_at_most_one_crash(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await stage.neighbours()
        os.kill(stage.pids("first").pop(), signal.SIGKILL)
        stage.gate.touch()
        runs = await stage.ended(*run_ids)
    assert {run.status for run in runs} == {RunStatus.COMPLETED}
    assert sum(run.crashes for run in runs) <= 1
    assert sum(run.losses for run in runs) == 0
    assert stage.count("first") == NEIGHBOURS


@pytest.mark.usefixtures("patient")
async def test_a_cancel_of_a_waiting_run_ends_it_and_no_other(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        cancelled, *others = await stage.neighbours()
        await cancel_run(stage.store, cancelled)
        (run,) = await stage.ended(cancelled)
        assert run.status is RunStatus.CANCELLED
        stage.gate.touch()
        for run in await stage.ended(*others):
            assert (run.status, run.job_no) == (RunStatus.COMPLETED, 1)
    assert stage.pids("second") == stage.pids("first")


@pytest.mark.usefixtures("patient")
async def test_a_cancelled_run_that_goes_on_is_killed_after_the_others_have_left(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await stage.neighbours()
        sleeping = await stage.start("sleeps")
        pid = await stage.marked("sleeping")
        assert stage.pids("first") == {pid}
        await cancel_run(stage.store, sleeping)
        (run,) = await stage.ended(sleeping)
        assert (run.status, run.crashes) == (RunStatus.CANCELLED, 0)
        stage.gate.touch()
        await stage.expect_unharmed(run_ids)


@pytest.mark.usefixtures("patient")
async def test_a_cancel_of_a_run_that_has_not_begun_ends_it_and_not_the_process(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        sleeping = await stage.start("sleeps")
        await stage.marked("sleeping")
        unbegun = await stage.start("chain", "never")
        await cancel_run(stage.store, unbegun)
        (run,) = await stage.ended(unbegun)
        assert run.status is RunStatus.CANCELLED
        stage.gate.touch()
        (run,) = await stage.ended(sleeping)
        assert (run.status, run.job_no) == (RunStatus.COMPLETED, 1)
    assert stage.count("step_0 never") == 0


@pytest.mark.usefixtures("patient")
@pytest.mark.skipif(sys.platform != "linux", reason="finds the lock in /proc")
async def test_a_cancel_ends_code_that_has_taken_the_lock_of_its_slot(stage: Stage) -> None:
    async with serving(stage.store.config, slots=2, spec=SPEC):
        run_ids = await stage.neighbours(2)
        hostile = await stage.start("keeps_lock")
        pid = await stage.marked("acted")
        assert stage.pids("first") == {pid}
        await cancel_run(stage.store, hostile)
        (run,) = await stage.ended(hostile)
        assert run.status is RunStatus.CANCELLED
        stage.gate.touch()
        await stage.expect_unharmed(run_ids)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the lock in /proc")
async def test_runs_leave_a_process_whose_lock_is_not_released(
    stage: Stage, patient: pytest.MonkeyPatch
) -> None:
    async with serving(stage.store.config, slots=2, spec=SPEC):
        run_ids = await stage.neighbours(2)
        hostile = await stage.start("keeps_lock")
        assert stage.pids("first") == {await stage.marked("acted")}
        patient.undo()
        (run,) = await stage.ended(hostile)
        assert (run.status, run.crashes) == (RunStatus.COMPLETED, 1)
        stage.gate.touch()
        await stage.expect_unharmed(run_ids)


async def test_a_cancel_of_a_run_that_waits_for_a_slot_does_not_wait_for_other_runs(
    stage: Stage, patient: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.undo()
    for name in ("LONG_SEC", "MOVE_BLOCKED_SEC", "MOVE_SEC"):  # all of them stay short for the worker
        monkeypatch.setattr(slot_runs, name, 1_000.0)
    async with serving(stage.store.config, slots=2, spec=SPEC):
        sleeping = [await stage.start("sleeps") for _ in range(2)]
        await until(lambda: len(stage.pids("sleeping")) == 2)
        waiting = await stage.start("chain", "never")
        await until(lambda: _is_claimed(stage, waiting))
        await cancel_run(stage.store, waiting)
        (run,) = await stage.ended(waiting)
        assert (run.status, run.crashes, run.losses) == (RunStatus.CANCELLED, 0, 0)
        stage.gate.touch()
        for run in await stage.ended(*sleeping):
            assert (run.status, run.job_no) == (RunStatus.COMPLETED, 1)
    assert stage.count("step_0 never") == 0


async def _is_claimed(stage: Stage, run_id: str) -> bool:
    stored = await stage.store.runs.load(run_id)
    return stored is not None and stored.run.claim is not None


async def test_runs_leave_a_process_whose_code_does_not_return(
    stage: Stage, patient: pytest.MonkeyPatch
) -> None:
    """Those that have not begun are executed by another slot, the others are handed back."""
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await stage.neighbours(2)
        sleeping = await stage.start("sleeps")
        pid = await stage.marked("sleeping")
        assert stage.pids("first") == {pid}
        patient.undo()
        later = [await stage.start("chain", f"n_{number}") for number in range(3)]
        for run in await stage.ended(*later):
            assert (run.status, run.crashes, run.losses) == (RunStatus.COMPLETED, 0, 0)
        assert pid not in stage.pids("step")
        await until(lambda: _is_claimed_elsewhere(stage, run_ids))
        stored = await stage.store.runs.load(sleeping)
        assert stored is not None
        assert stored.run.status is RunStatus.RUNNING
        stage.gate.touch()
        await stage.expect_unharmed(run_ids)


async def _is_claimed_elsewhere(stage: Stage, run_ids: list[str]) -> bool:
    loaded = [await stage.store.runs.load(run_id) for run_id in run_ids]
    return all(stored is not None and stored.run.job_no > 1 for stored in loaded)


async def test_a_stopped_process_holds_no_runs(stage: Stage, patient: pytest.MonkeyPatch) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await stage.neighbours()
        (pid,) = stage.pids("first")
        os.kill(pid, signal.SIGSTOP)
        patient.undo()
        later = [await stage.start("chain", f"n_{number}") for number in range(3)]
        for run in await stage.ended(*later):
            assert (run.status, run.crashes, run.losses) == (RunStatus.COMPLETED, 0, 0)
        stage.gate.touch()
        os.kill(pid, signal.SIGCONT)
        await stage.expect_unharmed(run_ids)


@pytest.mark.usefixtures("patient")
async def test_what_interleaved_runs_print_is_in_their_own_logs(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await asyncio.gather(*(stage.start("prints", f"run {number}") for number in range(7)))
        await stage.ended(*run_ids)
    for number, run_id in enumerate(run_ids):
        who = f"run {number}"
        said = [
            (entry.task, entry.message)
            for entry in await stage.store.logs.entries(run_id)
            if entry.stream != "system"
        ]
        expected: list[tuple[str, str]] = []
        for step in range(4):
            words = (f"says {step}", f"in a thread {step}", f"ends {step} without a line end")
            expected += [(f"speak_{step}", f"{who} {text}") for text in words]
        assert said == expected


@pytest.mark.usefixtures("patient")
async def test_large_results_and_fan_outs_end_beside_other_runs(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        flows = ["large", "fan", "chain", "large", "fan", "chain"]
        run_ids = await asyncio.gather(*(stage.start(flow) for flow in flows))
        for run in await stage.ended(*run_ids):
            assert run.status is RunStatus.COMPLETED, run.error


@pytest.mark.usefixtures("patient")
async def test_a_worker_that_stops_hands_back_what_is_in_its_slots(stage: Stage) -> None:
    async with serving(stage.store.config, slots=3, spec=SPEC):
        run_ids = await stage.neighbours()
        sleeping = await stage.start("sleeps")
        await stage.marked("sleeping")
        unbegun = await stage.start("chain", "n")
    for run_id in (*run_ids, sleeping, unbegun):
        stored = await stage.store.runs.load(run_id, at_leader=True)
        assert stored is not None
        assert (stored.run.claim, stored.run.crashes, stored.run.losses) == (None, 0, 0)
    stage.gate.touch()
    async with serving(stage.store.config, slots=3, spec=SPEC):
        await stage.expect_unharmed([*run_ids, unbegun])
        await stage.ended(sleeping)


@pytest.mark.usefixtures("patient")
async def test_runs_that_wait_for_answers_are_parked_and_continue_beside_others(
    store: Store, tmp_path: Path
) -> None:
    spec = f"{Path(__file__).with_name('wait_flows.py')}:resolve"
    async with serving(store.config, slots=3, spec=spec):
        run_ids = [await started(store, "release", tmp_path / f"marks{number}") for number in range(4)]
        for run_id in run_ids:
            await until_parked(store, run_id)
        for run_id in run_ids:
            await resume(store, run_id, "release", "go")
        for number, run_id in enumerate(run_ids):
            run = await ended(store, run_id)
            assert (run.status, run.tasks["deploy"].output) == (RunStatus.COMPLETED, ["v1", "go"])
            assert lines(tmp_path / f"marks{number}") == ["build", "deploy"]
