"""Runs in processes of their own: what they do to themselves, nobody else feels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.engine import WaitAnswer
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import RunLost, TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.status import LossCause, RunStatus, TaskStatus
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.presence.lease_deadline import LeaseDeadline
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.slots.edition import ResolverBroken
from tests.conftest import NatsServer, config_for, until
from tests.worker.slots.slot_flows import WIDTH
from tests.worker.slots.slot_stage import SPEC, ended, is_alive, lines, serving, started
from tests.worker.stage import history, output_of


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server, cancel_grace_period_sec=0.3)


async def _shows_tasks(store: Store, run_id: str) -> bool:
    stored = await store.runs.load(run_id)
    return stored is not None and bool(stored.run.tasks)


async def test_a_run_is_executed_by_a_process_that_is_used_again(store: Store, tmp_path: Path) -> None:
    async with serving(store.config):
        pids = set()
        for _ in range(3):
            run = await ended(store, await started(store, "pid", tmp_path / "marks"))
            assert run.status is RunStatus.COMPLETED
            pids.add(run.tasks["pid"].output)
    assert len(pids) == 1
    assert os.getpid() not in pids


async def test_a_task_never_starts_after_its_end(store: Store, tmp_path: Path) -> None:
    """However fast it is, and however late both are written down."""
    async with serving(store.config):
        for _ in range(20):
            run_id = await started(store, "pid", tmp_path / "marks")
            await ended(store, run_id)
            log = await history(store, run_id)
            begun = [event.at for event in log if isinstance(event, TaskStarted)]
            done = [event.at for event in log if isinstance(event, TaskSucceeded)]
            assert len(begun) == len(done) == 1
            assert begun[0] <= done[0]


@pytest.mark.parametrize("flow", ["stubborn", "busy"])
async def test_code_that_ignores_a_cancel_is_ended_with_all_it_has_started(
    store: Store, tmp_path: Path, flow: str
) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        run_id = await started(store, flow, marks)
        await until(lambda: any(line.startswith("sleeping") for line in lines(marks)))
        await until(lambda: _shows_tasks(store, run_id))
        await cancel_run(store, run_id)
        run = await ended(store, run_id)
        assert run.status is RunStatus.CANCELLED
        assert {record.state for record in run.tasks.values()} == {TaskStatus.CANCELLED}
        pids = [int(line.split()[1]) for line in lines(marks)]
        await until(lambda: not any(map(is_alive, pids)))
        # The slot was replaced: the next run finds a process.
        after = await ended(store, await started(store, "pid", marks))
        assert after.status is RunStatus.COMPLETED


async def test_a_run_whose_process_dies_once_is_tried_again(store: Store, tmp_path: Path) -> None:
    async with serving(store.config):
        run = await ended(store, await started(store, "once", tmp_path / "marks"))
    assert (run.status, run.crashes, run.losses, run.job_no) == (RunStatus.COMPLETED, 1, 0, 2)
    assert run.tasks["crash_the_first_time"].output == "second time"


async def test_a_run_that_always_ends_its_process_fails_and_names_the_exit_code(
    store: Store, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config, slots=2):
        run_id = await started(store, "exits", marks)
        others = [await started(store, "pid", tmp_path / "others") for _ in range(5)]
        run = await ended(store, run_id)
        assert [(await ended(store, other)).status for other in others] == [RunStatus.COMPLETED] * 5
    assert (run.status, run.reason, run.crashes) == (RunStatus.FAILED, "execution_error", 3)
    assert "exit code 7" in str(run.error)
    # What had succeeded is not executed again, and its result is there for the next try.
    assert [line.split()[0] for line in lines(marks)] == ["first"] + ["last-kept"] * 3


async def test_a_run_that_kills_its_process_names_the_signal(store: Store, tmp_path: Path) -> None:
    async with serving(store.config):
        run = await ended(store, await started(store, "killed", tmp_path / "marks"))
    assert run.status is RunStatus.FAILED
    assert "SIGKILL" in str(run.error)


async def test_a_process_that_dies_takes_along_what_it_has_started(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        run = await ended(store, await started(store, "leaves_child", marks))
        assert run.status is RunStatus.FAILED
        pids = [int(line.split()[1]) for line in lines(marks)]
        assert len(pids) == store.config.max_crashes
        await until(lambda: not any(map(is_alive, pids)))


async def test_the_grace_of_a_run_that_has_ended_does_not_end_its_slots_next_run(
    store: Store, tmp_path: Path
) -> None:
    """Its code returned in time, but its end is still being committed: the slot is another's by then."""
    slot = _Stopped()
    recorder = Recorder(store, await submit(store, Submission(flow_name="x")), lambda _: None)
    async with AttemptMonitor(
        store, await _any_delivery(store, tmp_path), "r", LeaseDeadline(5.0)
    ) as under_way:
        under_way.begin(slot, recorder)
        under_way.cancel()
        under_way.detach_engine()
        under_way._grace_is_over()
        under_way.on_refused(Reason.FENCED)
    assert (slot.cancelled, slot.abandoned) == (["r"], [])


class _Stopped:
    """Remembers what was done to it."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.abandoned: list[str] = []

    def cancel(self, run_id: str) -> None:
        self.cancelled.append(run_id)

    def abandon(self, run_id: str) -> None:
        self.abandoned.append(run_id)

    def answer(self, run_id: str, task: str, answer: WaitAnswer) -> None:
        raise AssertionError("nothing waits")

    def grant(self, run_id: str, until: float) -> None:
        """It starts nothing."""


async def _any_delivery(store: Store, tmp_path: Path) -> Delivery:
    await started(store, "pid", tmp_path / "marks")
    puller = await store.queue.pull(["default"])
    delivery = await puller.next(5.0)
    await puller.close()
    assert delivery is not None
    return delivery


async def test_a_flow_that_nobody_knows_fails_without_a_crash(store: Store, tmp_path: Path) -> None:
    async with serving(store.config):
        run = await ended(store, await started(store, "nowhere", tmp_path / "marks"))
    assert (run.status, run.reason, run.crashes) == (RunStatus.FAILED, "flow_not_found", 0)


async def test_what_cannot_be_finished_is_handed_back_and_counts_for_nothing(
    store: Store, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        run_id = await started(store, "stubborn", marks)
        await until(lambda: any(line.startswith("sleeping") for line in lines(marks)))
    stored = await store.runs.load(run_id, at_leader=True)
    assert stored is not None
    assert (stored.run.status, stored.run.claim) == (RunStatus.RUNNING, None)
    assert (stored.run.losses, stored.run.crashes, stored.run.job_no) == (0, 0, 2)
    events = [event for _, commit in await store.runs.events(run_id) for event in commit]
    assert [event.cause for event in events if isinstance(event, RunLost)] == [LossCause.HANDED_BACK]
    await until(lambda: not any(is_alive(int(line.split()[1])) for line in lines(marks)))


async def test_a_resolver_that_cannot_be_loaded_is_named_at_the_start(config: NatsBackendConfig) -> None:
    with pytest.raises(ResolverBroken, match="nowhere"):
        await PyocoNatsWorker.connect(config, resolver_spec="nowhere_at_all:resolve")


async def test_slots_die_with_a_worker_that_is_killed(
    store: Store, config: NatsBackendConfig, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    run_id = await started(store, "stubborn", marks)
    command = [
        sys.executable,
        "-m",
        "pyoco_server.cli.worker.main",
        "--flow-resolver",
        SPEC,
        "--concurrency",
        "1",
    ]
    worker = _in_background(command, store.config)
    try:
        await until(lambda: any(line.startswith("sleeping") for line in lines(marks)), within_sec=30)
        slot = next(int(line.split()[1]) for line in lines(marks) if line.startswith("sleeping"))
        worker.send_signal(signal.SIGKILL)
        await until(lambda: not is_alive(slot))
    finally:
        worker.kill()
        worker.wait()
        for line in lines(marks):
            if line.startswith("child") and is_alive(int(line.split()[1])):
                os.kill(int(line.split()[1]), signal.SIGKILL)
    assert run_id


def _in_background(command: list[str], config: NatsBackendConfig) -> subprocess.Popen[bytes]:
    from tests.promises.stack import environment_of

    return subprocess.Popen(command, env=os.environ | environment_of(config))


async def test_a_slot_that_dies_while_it_is_idle_is_not_used_again(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        first = await ended(store, await started(store, "pid", marks))
        pid = output_of(first, "pid")
        os.kill(pid, signal.SIGKILL)
        # Not only dead but gone: its last threads may outlive its first one for a moment.
        await until(lambda: not Path(f"/proc/{pid}").exists())
        second = await ended(store, await started(store, "pid", marks))
    assert (second.status, second.crashes) == (RunStatus.COMPLETED, 0)
    assert second.tasks["pid"].output != first.tasks["pid"].output


async def test_a_slot_with_a_thread_left_in_it_is_replaced(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        # Known before: on a busy machine the task may be over its time before it has said anything.
        old = output_of(await ended(store, await started(store, "pid", marks)), "pid")
        run = await ended(store, await started(store, "overtime", marks))
        assert (run.status, run.error) == (RunStatus.FAILED, "Task 'sleep' exceeded timeout of 0.1s")
        after = await ended(store, await started(store, "pid", marks))
        assert after.tasks["pid"].output != old
        await until(lambda: not is_alive(old))


# Fan-outs, whose quick tasks share a thread


async def test_tasks_that_wait_for_each_other_run_at_once(store: Store, tmp_path: Path) -> None:
    async with serving(store.config):
        run = await ended(store, await started(store, "fan_meets", tmp_path / "marks"))
    assert run.status is RunStatus.COMPLETED


async def test_after_a_crash_in_a_fan_out_every_task_has_its_result(store: Store, tmp_path: Path) -> None:
    async with serving(store.config):
        run = await ended(store, await started(store, "fan_dies", tmp_path / "marks"))
    assert (run.status, run.crashes) == (RunStatus.COMPLETED, 1)
    assert {name: record.output for name, record in run.tasks.items()} == {
        f"t{number}": number for number in range(WIDTH)
    }


async def test_after_a_cancel_of_a_fan_out_no_task_begins_that_was_not_started(
    store: Store, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        run_id = await started(store, "fan_naps", marks)
        await until(lambda: len(lines(marks)) > 8)
        await cancel_run(store, run_id)
        run = await ended(store, run_id)
        begun = len(lines(marks))
        again = await ended(store, await started(store, "fan_meets", tmp_path / "other"))
    assert (run.status, again.status) == (RunStatus.CANCELLED, RunStatus.COMPLETED)
    assert len(lines(marks)) == begun < WIDTH
    assert TaskStatus.CANCELLED in {record.state for record in run.tasks.values()}
    reported = [event.task for event in await history(store, run_id) if isinstance(event, TaskStarted)]
    assert len(reported) == len(set(reported))
