"""The end of a worker's process on this machine is noticed at once, and nothing else counts as its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping import Housekeeper
from pyoco_server.housekeeping.local_processes import LocalProcesses
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.leases import Lease, boot_id
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.housekeeping.test_lost_workers import claimed
from tests.worker.stage import config_on, the_run

INSTANCE = "w1.dead"
LONG_SEC = 60.0  # no round of the housekeeper and no lease period ends in a test

needs_pidfd = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="pidfd is of Linux")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield started
    started.kill()
    started.wait(30)


@pytest.fixture
async def processes() -> AsyncIterator[LocalProcesses]:
    watched = LocalProcesses()
    yield watched
    watched.close()
    watched.close()


def lease_of(pid: int, *, host: str = "", namespace: str = "") -> Lease:
    here = namespace or boot_id()
    return Lease(holder=INSTANCE, worker_id="w1", host=host or socket.gethostname(), boot_id=here, pid=pid)


@needs_pidfd
async def test_the_end_of_a_process_is_reported_also_before_its_parent_has_waited_for_it(
    processes: LocalProcesses, process: subprocess.Popen[bytes]
) -> None:
    ended = asyncio.Event()
    processes.on_end(ended.set)
    processes.watch(INSTANCE, lease_of(process.pid))
    assert not processes.has_ended(INSTANCE, lease_of(process.pid))
    process.kill()
    async with asyncio.timeout(30):
        await ended.wait()
    assert processes.has_ended(INSTANCE, None)
    assert processes.ended == [INSTANCE]


async def test_a_process_that_is_stopped_has_not_ended(
    processes: LocalProcesses, process: subprocess.Popen[bytes]
) -> None:
    processes.watch(INSTANCE, lease_of(process.pid))
    for sig, state in ((signal.SIGSTOP, os.WSTOPPED), (signal.SIGCONT, os.WCONTINUED)):
        process.send_signal(sig)
        await asyncio.to_thread(os.waitid, os.P_PID, process.pid, state | os.WNOWAIT)
        await asyncio.sleep(0)
        assert not processes.has_ended(INSTANCE, lease_of(process.pid))
        assert processes.ended == []


@pytest.mark.parametrize(
    "place", [{"host": "another"}, {"namespace": "of a container"}], ids=["another machine", "a container"]
)
async def test_a_process_id_of_elsewhere_says_nothing(
    processes: LocalProcesses, process: subprocess.Popen[bytes], place: dict[str, str]
) -> None:
    process.kill()
    process.wait(30)
    processes.watch(INSTANCE, lease_of(process.pid, **place))
    assert not processes.knows(INSTANCE)
    assert not processes.has_ended(INSTANCE, lease_of(process.pid, **place))


async def test_a_process_with_a_reused_id_hides_the_end_and_its_lease_decides(
    processes: LocalProcesses, process: subprocess.Popen[bytes]
) -> None:
    """The process lives, but it is not the worker. Nothing is taken early."""
    assert not processes.has_ended(INSTANCE, lease_of(process.pid))
    assert not processes.has_ended("another", None)


async def test_without_descriptors_a_process_is_looked_up_by_its_id(
    processes: LocalProcesses, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert not processes.has_ended(INSTANCE, lease_of(process.pid))
    process.kill()
    process.wait(30)
    assert processes.has_ended(INSTANCE, lease_of(process.pid))


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, housekeeping_interval_sec=LONG_SEC, worker_lease_sec=2 * LONG_SEC)


@asynccontextmanager
async def keeping(store: Store, read_model: ReadModel) -> AsyncIterator[Housekeeper]:
    keeper = Housekeeper(store, read_model)
    keeper.start()
    try:
        await until(lambda: keeper.is_holder)
        yield keeper
    finally:
        await keeper.stop()


def entry_of(process: subprocess.Popen[bytes]) -> bytes:
    return msgspec.json.encode({"instance_id": INSTANCE, "host": socket.gethostname(), "pid": process.pid})


@needs_pidfd
async def test_the_runs_of_a_killed_process_are_taken_without_waiting_for_a_round_or_a_lease(
    store: Store, read_model: ReadModel, process: subprocess.Popen[bytes]
) -> None:
    async with keeping(store, read_model) as keeper:
        await store.leases.write(INSTANCE, lease_of(process.pid), revision=0)
        keeper.note_worker(entry_of(process))
        await until(lambda: keeper._lost_workers.processes.knows(INSTANCE))
        runs = [await claimed(store, INSTANCE) for _ in range(20)]
        process.kill()
        await until(lambda: not read_model.housekeeping.claiming_instances())
        for run_id in runs:
            run = await the_run(store, run_id)
            assert (run.claim, run.losses, run.job_no) == (None, 1, 2)


@needs_pidfd
async def test_the_runs_of_a_stopped_process_stay_with_it(
    store: Store, read_model: ReadModel, process: subprocess.Popen[bytes]
) -> None:
    async with keeping(store, read_model) as keeper:
        await store.leases.write(INSTANCE, lease_of(process.pid), revision=0)
        keeper.note_worker(entry_of(process))
        run_id = await claimed(store, INSTANCE)
        process.send_signal(signal.SIGSTOP)
        await keeper.round()
        assert (await the_run(store, run_id)).claim is not None
        process.send_signal(signal.SIGCONT)
        await keeper.round()
        assert (await the_run(store, run_id)).claim is not None


@pytest.mark.parametrize(
    "entry", [b"", b"{", b"[]", b'{"instance_id": 3}', b'{"instance_id": "x", "host": "y"}']
)
async def test_entries_of_other_machines_and_programs_cost_no_read(
    store: Store, read_model: ReadModel, entry: bytes
) -> None:
    keeper = Housekeeper(store, read_model)
    assert not keeper._lost_workers.is_new_and_local(entry)


async def test_a_worker_is_looked_at_once(
    store: Store, read_model: ReadModel, process: subprocess.Popen[bytes]
) -> None:
    lost_workers = Housekeeper(store, read_model)._lost_workers
    assert lost_workers.is_new_and_local(entry_of(process))
    assert not lost_workers.is_new_and_local(entry_of(process))
