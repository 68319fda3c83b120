"""Waits in slots: the process is free for others meanwhile, and hears an answer while it is busy."""

from __future__ import annotations

from pathlib import Path

from pyoco_server.lifecycle.events import TasksPlanned, TaskStarted, TaskWaiting
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus, TaskStatus
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.worker.slots.slot_stage import ended, lines, serving, started
from tests.worker.stage import count_of, history, the_run
from tests.worker.wait_stage import resume, until_parked, until_waiting

SPEC = f"{Path(__file__).with_name('wait_flows.py')}:resolve"

NEWER = """
from pyoco import Flow, task
from pyoco_server import approval

@task
def build():
    raise AssertionError("built already")

@task
def deploy():
    return "by the newer version"

def resolve(name):
    return Flow(name) >> build >> {wait} >> deploy
"""


async def test_the_only_slot_runs_others_while_a_run_waits(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config, 1, SPEC):
        run_id = await started(store, "release", marks)
        parked = await until_parked(store, run_id)
        assert parked.tasks["release"].wait is not None
        assert parked.tasks["release"].wait.prompt == {"version": "v1", "price": "$100"}
        other = await ended(store, await started(store, "quick", marks))
        assert other.status is RunStatus.COMPLETED
        await resume(store, run_id, "release", {"by": ["ann"]})
        run = await ended(store, run_id)
    assert (run.status, run.tasks["deploy"].output) == (RunStatus.COMPLETED, ["v1", {"by": ["ann"]}])
    assert lines(marks) == ["build", "deploy"]


async def test_a_busy_slot_hears_an_answer(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config, 1, SPEC):
        run_id = await started(store, "beside", marks)
        await until_waiting(store, run_id, "release")
        await until(lambda: lines(marks) == ["busy"])
        await resume(store, run_id, "release", "go")
        run = await ended(store, run_id)
    assert (run.status, run.tasks["deploy"].output, run.tasks["busy"].output) == (
        RunStatus.COMPLETED,
        "go",
        "relieved",
    )
    assert run.fence == 1


async def test_what_a_slot_reports_has_the_instant_at_which_it_happened(store: Store, tmp_path: Path) -> None:
    """And not the one at which it was written down, which several reports share."""
    marks = tmp_path / "marks"
    async with serving(store.config, 1, SPEC):
        run_id = await started(store, "beside", marks)
        await until_waiting(store, run_id, "release")
        await resume(store, run_id, "release", "go")
        await ended(store, run_id)
    reported = (TasksPlanned, TaskStarted, TaskWaiting)
    events = [event for event in await history(store, run_id) if isinstance(event, reported)]
    assert len(events) == 4
    assert [event.at for event in events] == sorted(event.at for event in events)


async def test_a_busy_slot_hears_a_rejection_and_stops(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config, 1, SPEC):
        run_id = await started(store, "beside", marks)
        await until_waiting(store, run_id, "release")
        await until(lambda: lines(marks) == ["busy"])
        await resume(store, run_id, "release", rejected=True, comment="no")
        run = await ended(store, run_id)
    assert (run.status, run.error, run.failed_task) == (RunStatus.FAILED, "no", "release")
    assert await count_of(store, run_id, "TaskFailed") == 1


async def test_a_rejected_run_fails_in_a_slot(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, 1, SPEC):
        run_id = await started(store, "release", tmp_path / "marks")
        await until_parked(store, run_id)
        await resume(store, run_id, "release", rejected=True)
        run = await ended(store, run_id)
    assert (run.status, run.error, run.tasks["release"].code) == (RunStatus.FAILED, "rejected", "REJECTED")


async def test_a_wait_outlives_the_process_beside_which_it_was_opened(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config, 1, SPEC):
        run_id = await started(store, "crashing", marks)
        await until_waiting(store, run_id, "release")
        asked = (await the_run(store, run_id)).tasks["release"].wait
        marks.write_text("crash now\n")
        parked = await until_parked(store, run_id)
        assert (parked.crashes, parked.tasks["release"].wait) == (1, asked)
        await resume(store, run_id, "release", 1)
        run = await ended(store, run_id)
    assert (run.status, run.tasks["fragile"].output) == (RunStatus.COMPLETED, "survived")
    assert await count_of(store, run_id, "TaskWaiting") == 1


async def test_a_run_goes_on_in_the_newer_version_of_its_flow(store: Store, tmp_path: Path) -> None:
    run = await _resumed_in_newer_version(store, tmp_path, wait='approval("release")')
    assert (run.status, run.tasks["deploy"].output) == (RunStatus.COMPLETED, "by the newer version")


async def test_a_run_whose_wait_the_newer_version_has_lost_ends_flow_changed(
    store: Store, tmp_path: Path
) -> None:
    run = await _resumed_in_newer_version(store, tmp_path, wait='approval("another")')
    assert (run.status, run.reason, run.failed_task) == (RunStatus.FAILED, "flow_changed", "release")
    assert run.tasks["deploy"].state is TaskStatus.CANCELLED


async def _resumed_in_newer_version(store: Store, tmp_path: Path, *, wait: str) -> Run:
    flows = tmp_path / "release_flows.py"
    flows.write_text(Path(__file__).with_name("wait_flows.py").read_text())
    async with serving(store.config, 1, f"{flows}:resolve") as worker:
        run_id = await started(store, "release", tmp_path / "marks")
        await until_parked(store, run_id)
        flows.write_text(NEWER.format(wait=wait))
        await worker.renew()
        await resume(store, run_id, "release")
        return await ended(store, run_id)
