"""Fan-outs in a real slot, whose quick tasks share a thread: parallelism, a crash and a cancel."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import TaskStarted
from pyoco_server.lifecycle.status import RunStatus, TaskStatus
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, until
from tests.worker.slots.fan_out_flows import WIDTH
from tests.worker.slots.slot_stage import ended, lines, serving, started
from tests.worker.stage import history

SPEC = f"{Path(__file__).with_name('fan_out_flows.py')}:resolve"


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server)


async def test_tasks_that_wait_for_each_other_run_at_once(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        run = await ended(store, await started(store, "meets", tmp_path / "marks"))
    assert run.status is RunStatus.COMPLETED


async def test_after_a_crash_in_the_middle_every_task_has_its_result(store: Store, tmp_path: Path) -> None:
    async with serving(store.config, spec=SPEC):
        run = await ended(store, await started(store, "dies", tmp_path / "marks"))
    assert (run.status, run.crashes) == (RunStatus.COMPLETED, 1)
    assert {name: record.output for name, record in run.tasks.items()} == {
        f"t{number}": number for number in range(WIDTH)
    }


async def test_after_a_cancel_no_task_begins_that_was_not_started(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config, spec=SPEC):
        run_id = await started(store, "naps", marks)
        await until(lambda: len(lines(marks)) > 8)
        await cancel_run(store, run_id)
        run = await ended(store, run_id)
        begun = len(lines(marks))
        again = await ended(store, await started(store, "meets", tmp_path / "other"))
    assert (run.status, again.status) == (RunStatus.CANCELLED, RunStatus.COMPLETED)
    assert len(lines(marks)) == begun < WIDTH
    assert TaskStatus.CANCELLED in {record.state for record in run.tasks.values()}
    reported = [event.task for event in await history(store, run_id) if isinstance(event, TaskStarted)]
    assert len(reported) == len(set(reported))
