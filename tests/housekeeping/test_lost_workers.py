"""Runs of workers that are gone are taken over; a worker that lives keeps its runs."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping.lost_workers import LostWorkers
from pyoco_server.lifecycle.commands import ClaimRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.leases import Lease, boot_id
from pyoco_server.store.store import Store
from pyoco_server.worker.recording.run_log import RunLog
from tests.conftest import NatsServer
from tests.worker.stage import (
    commits_of,
    config_on,
    ended_as,
    jobs_queued,
    lawful,
    letters,
    queue_drained,
    status_of,
    submitted,
    the_letter,
    the_run,
    until_handled,
    working,
)

LEASE_SEC = 5


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, consumer_max_deliver=2)


@pytest.fixture
def lost_workers(store: Store, read_model: ReadModel) -> LostWorkers:
    return LostWorkers(store, read_model)


async def claimed(store: Store, instance: str = "w1.dead", **wanted: Any) -> str:
    """A run that this instance has claimed, its job out of the queue as if in that worker's hands."""
    run_id = await submitted(store, **wanted)
    await store.jetstream.api(f"STREAM.PURGE.{store.config.work_stream}")
    await apply(store, run_id, ClaimRun(worker_id="w1", instance_id=instance, job_no=1))
    return run_id


async def watched(store: Store, lost_workers: LostWorkers, seconds: int, *, through: bool = True) -> int:
    """Look once a second, as long as that by the observer's clock. How many runs were taken."""
    start, taken = getattr(lost_workers, "clock", 0), 0
    for second in range(start, start + seconds):
        await lost_workers._read_model.catch_up()
        taken += await lost_workers.look(float(second), own_write_went_through=through)
    lost_workers.clock = start + seconds  # type: ignore[attr-defined]
    return taken


async def test_a_lease_that_stands_still_loses_its_runs_and_another_worker_completes_them(
    store: Store, lost_workers: LostWorkers
) -> None:
    run_id = await claimed(store)
    await store.leases.write("w1.dead", Lease(holder="w1.dead", host="elsewhere", pid=1), revision=0)
    assert await watched(store, lost_workers, LEASE_SEC) == 0
    assert (await lawful(store, run_id)).status == "RUNNING"
    assert await watched(store, lost_workers, 1) == 1
    run = await the_run(store, run_id)
    assert (run.claim, run.losses, run.job_no) == (None, 1, 2)
    assert (await commits_of(store, run_id))[-1] == ["RunLost"]
    assert await jobs_queued(store) == 1
    async with working(store.config) as worker:
        await until_handled(worker, run_id)
        await queue_drained(store)
    await ended_as(store, run_id, "COMPLETED")
    assert await letters(store) == []


async def test_a_worker_without_a_lease_is_lost_too(store: Store, lost_workers: LostWorkers) -> None:
    run_id = await claimed(store)
    assert await watched(store, lost_workers, LEASE_SEC) == 0
    assert await watched(store, lost_workers, 1) == 1
    assert (await the_run(store, run_id)).claim is None


async def test_a_lease_that_cannot_be_read_hides_no_lost_worker(
    store: Store, lost_workers: LostWorkers
) -> None:
    """Of a worker of another version: only that its revision moves is known of it."""
    lost, lives = await claimed(store), await claimed(store, "w2.strange")
    key = f"$KV.{store.config.leases_kv_bucket}.w2.strange"
    taken = 0
    for _ in range(LEASE_SEC + 1):
        await store.jetstream.publish(key, b'{"holder": 7}')
        taken += await watched(store, lost_workers, 1)
    assert taken == 1
    assert (await the_run(store, lost)).claim is None
    assert (await the_run(store, lives)).claim is not None
    assert await watched(store, lost_workers, LEASE_SEC + 1) == 1


async def test_a_lease_that_moves_is_left_alone(store: Store, lost_workers: LostWorkers) -> None:
    run_id = await claimed(store)
    revision = 0
    for _ in range(4 * LEASE_SEC):
        # It moves only every third second: late, but alive.
        revision = await store.leases.renew("w1.dead", Lease(holder="w1.dead"), revision=revision)
        assert await watched(store, lost_workers, 3) == 0
    assert (await lawful(store, run_id)).status == "RUNNING"


async def test_time_in_which_our_own_writes_failed_ages_nobody(
    store: Store, lost_workers: LostWorkers
) -> None:
    await claimed(store)
    assert await watched(store, lost_workers, 3) == 0
    assert await watched(store, lost_workers, 100, through=False) == 0
    assert await watched(store, lost_workers, LEASE_SEC - 2) == 0
    assert await watched(store, lost_workers, 1) == 1


async def test_a_dead_process_of_this_machine_is_lost_at_once(
    store: Store, lost_workers: LostWorkers
) -> None:
    run_id = await claimed(store)
    await store.leases.write("w1.dead", _lease(pid=_dead_pid()), revision=0)
    assert await watched(store, lost_workers, 1) == 1
    assert (await the_run(store, run_id)).claim is None


@pytest.mark.parametrize(
    "changes",
    [{"host": "another"}, {"boot_id": "before the restart"}, {"boot_id": ""}],
    ids=["another machine", "another start of the machine", "no start known"],
)
async def test_a_pid_of_elsewhere_says_nothing(
    store: Store, lost_workers: LostWorkers, changes: dict[str, str]
) -> None:
    await claimed(store)
    await store.leases.write("w1.dead", _lease(pid=_dead_pid(), **changes), revision=0)
    assert await watched(store, lost_workers, LEASE_SEC) == 0
    assert await watched(store, lost_workers, 1) == 1


async def test_a_cancelled_run_of_a_lost_worker_ends_cancelled_and_gets_no_job(
    store: Store, lost_workers: LostWorkers
) -> None:
    run_id = await claimed(store)
    await cancel_run(store, run_id)
    assert await status_of(store, run_id) == "CANCELLING"
    assert await watched(store, lost_workers, LEASE_SEC + 1) == 1
    await ended_as(store, run_id, "CANCELLED")
    assert (await jobs_queued(store), await letters(store)) == (0, [])


async def test_a_run_that_keeps_losing_its_workers_ends_failed_with_a_letter(
    store: Store, lost_workers: LostWorkers
) -> None:
    run_id = await claimed(store, params={"a": 1})
    assert await watched(store, lost_workers, LEASE_SEC + 1) == 1
    await apply(store, run_id, ClaimRun(worker_id="w2", instance_id="w2.dead", job_no=2))
    assert await watched(store, lost_workers, LEASE_SEC + 1) == 1
    failed = await ended_as(store, run_id, "FAILED")
    assert (failed.pyoco.reason, failed.pyoco.losses) == ("max_deliver", 2)
    letter = await the_letter(store)
    assert (letter["reason"], letter["run_id"], letter["num_delivered"]) == ("max_deliver", run_id, 2)
    assert letter["error"] == failed.error
    assert msgspec.json.decode(letter["payload"])["params"] == {"a": 1}
    assert letter["subject"] == f"{store.config.work_subject_prefix}.default"


async def test_all_runs_of_a_lost_worker_are_taken_and_those_of_others_stay(
    store: Store, lost_workers: LostWorkers
) -> None:
    dead = [await claimed(store) for _ in range(3)]
    async with working(store.config) as living:
        kept = await claimed(store, living.instance_id)
        assert await watched(store, lost_workers, 1) == 0
        # The living one's lease must move between two looks, as it does each second of real time.
        for second in range(1, LEASE_SEC + 2):
            await living._heartbeat._renew()
            await lost_workers.look(float(second), own_write_went_through=True)
        assert {(await the_run(store, run_id)).claim for run_id in dead} == {None}
        assert (await the_run(store, kept)).claim is not None


def _lease(**members: Any) -> Lease:
    known = {"holder": "w1.dead", "host": socket.gethostname(), "boot_id": boot_id()}
    return Lease(**(known | members))


def _dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


async def test_the_log_says_who_was_lost_and_a_worker_that_wakes_up_goes_on_only_if_the_run_does(
    store: Store, lost_workers: LostWorkers
) -> None:
    asleep = {}
    for name in ("goes on", "cancelled"):
        run_id = await claimed(store, flow_name=name)
        asleep[name] = run_id, RunLog(store, run_id, fence=1)
    await cancel_run(store, asleep["cancelled"][0])
    assert await watched(store, lost_workers, LEASE_SEC + 2) == 2
    said = {}
    for name, (run_id, log) in asleep.items():
        log.warn("I am awake")
        await log.close()
        said[name] = [entry.message for entry in await store.logs.entries(run_id)]
    lost = "worker w1 gave no sign of life; the run is taken from it"
    assert said == {"goes on": [lost, "I am awake"], "cancelled": [lost]}
