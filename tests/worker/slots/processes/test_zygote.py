"""Slots that are forked from a zygote: what happens to it, to them, and to what they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.store import Store
from pyoco_server.worker.slots import zygote_link
from pyoco_server.worker.slots.edition import ResolverBroken
from pyoco_server.worker.slots.pool import Slots
from pyoco_server.worker.slots.zygote import reseed
from pyoco_server.worker.slots.zygote_link import ZygoteLink
from pyoco_server.worker.slots.zygote_messages import Forked, FromZygote
from pyoco_server.worker.slots.zygote_spawn import forks_slots
from tests.conftest import NatsServer, config_for, until
from tests.promises.stack import environment_of
from tests.worker.slots.slot_stage import SPEC, ended, is_alive, lines, parent_of, serving, started
from tests.worker.slots.test_environment import below
from tests.worker.stage import output_of

pytestmark = pytest.mark.skipif(not forks_slots(NatsBackendConfig()), reason="slots are not forked here")

# Its list of flows says in which process the file was loaded.
FLOWS = """
import os
{line}
def resolve(name):
    raise KeyError(name)
resolve.flows = {{"loaded": str(os.getpid())}}
"""


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_for(nats_server, cancel_grace_period_sec=0.3)


@asynccontextmanager
async def pool_of(folder: Path, line: str = "", **settings: Any) -> AsyncIterator[Slots]:
    flows = folder / "flows_of_pool.py"
    flows.write_text(FLOWS.format(line=line))
    pool = Slots(NatsBackendConfig(load_dotenv=False, **settings), f"{flows}:resolve", 2)
    try:
        await pool.start()
        await until(lambda: len(pool._free) == 2)
        yield pool
    finally:
        await pool.close()


def pids_of(pool: Slots) -> list[int]:
    return [slot._process.pid for slot in pool._free if slot._process is not None]


async def test_flows_are_loaded_once_and_slots_are_copies(tmp_path: Path) -> None:
    async with pool_of(tmp_path) as pool:
        [zygote] = {parent_of(pid) for pid in pids_of(pool)}
        assert pool.flows == {"loaded": str(zygote)}
        assert parent_of(zygote) == os.getpid()
        processes = [zygote, *pids_of(pool)]
    await until(lambda: not any(map(is_alive, processes)))


@pytest.mark.parametrize(
    "line",
    [
        "import threading, time; threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()",
        "import socket; PAIR = socket.socketpair()",
        "FILE = open(__file__)",
        "import subprocess; CHILD = subprocess.Popen(['sleep', '3600'])",
        "fork = os.fork; os.fork = lambda: fork()",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 3600)",
        "import asyncio; LOOP = asyncio.new_event_loop()",
    ],
    ids=["thread", "connection", "file", "child", "fork", "timer", "loop"],
)
async def test_what_cannot_be_copied_is_loaded_in_each_slot(tmp_path: Path, line: str) -> None:
    async with pool_of(tmp_path, line) as pool:
        pids = pids_of(pool)
        [zygote] = {parent_of(pid) for pid in pids}
        assert [slot.flows for slot in pool._free] == [{"loaded": str(pid)} for pid in pids]
        processes = [zygote, *below(zygote)]
    await until(lambda: not any(map(is_alive, processes)))


@pytest.mark.parametrize("slot_start", ["imports", "fresh"])
async def test_the_setting_lets_each_slot_load_the_flows(tmp_path: Path, slot_start: str) -> None:
    async with pool_of(tmp_path, slot_start=slot_start) as pool:
        pids = pids_of(pool)
        assert [slot.flows for slot in pool._free] == [{"loaded": str(pid)} for pid in pids]
        parents = {parent_of(pid) for pid in pids}
        assert (parents == {os.getpid()}) == (slot_start == "fresh")


@pytest.mark.parametrize("line", ["import nowhere_at_all", "1 / 0", "def broken(:"])
async def test_a_resolver_that_raises_is_reported_in_the_same_words_however_slots_start(
    tmp_path: Path, line: str
) -> None:
    texts = set()
    for slot_start in ("auto", "imports", "fresh"):
        with pytest.raises(ResolverBroken) as raised:
            async with pool_of(tmp_path, line, slot_start=slot_start):
                pass
        texts.add(str(raised.value))
    assert len(texts) == 1


async def test_a_new_edition_has_a_new_zygote_and_the_old_one_ends(tmp_path: Path) -> None:
    async with pool_of(tmp_path) as pool:
        [old] = {parent_of(pid) for pid in pids_of(pool)}
        await pool.renew()
        [new] = {parent_of(pid) for pid in pids_of(pool)}
        assert pool.flows == {"loaded": str(new)}
        await until(lambda: not is_alive(old))
        (tmp_path / "flows_of_pool.py").write_text("1 / 0")
        with pytest.raises(ResolverBroken):
            await pool.renew()
        assert {parent_of(pid) for pid in pids_of(pool)} == {new}
        # The zygote that could not load it has ended too.
        known = {new, *pids_of(pool)}
        await until(lambda: {pid for pid in below(os.getpid()) if "slots.zygote" in _command(pid)} == known)


def _is_gone(pid: int) -> bool:
    return not is_alive(pid)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except OSError:
        return ""


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
async def test_runs_go_on_without_their_zygote_and_the_next_slots_have_another(
    store: Store, tmp_path: Path, sig: signal.Signals
) -> None:
    marks, until_file = tmp_path / "marks", tmp_path / "until"
    async with serving(store.config, slots=2):
        run_id = await started(store, "waits", marks, until=str(until_file))
        await until(lambda: lines(marks))
        slot = int(lines(marks)[0].split()[1])
        zygote = parent_of(slot)
        os.kill(zygote, sig)
        await until(lambda: not is_alive(zygote))
        # Its process is not known to anybody but the worker now: how it ends is still noticed.
        crashed = await ended(store, await started(store, "killed", marks))
        assert crashed.status is RunStatus.FAILED
        until_file.touch()
        run = await ended(store, run_id)
        assert (run.status, run.crashes, run.losses) == (RunStatus.COMPLETED, 0, 0)
        os.kill(slot, signal.SIGKILL)
        await until(lambda: not is_alive(slot))
        after = await ended(store, await started(store, "parent", marks))
        assert after.status is RunStatus.COMPLETED
        assert parent_of(output_of(after, "parent")) == os.getpid()


async def test_a_run_that_kills_its_parent_process_harms_no_run(store: Store, tmp_path: Path) -> None:
    marks, until_file = tmp_path / "marks", tmp_path / "until"
    async with serving(store.config, slots=2):
        neighbour = await started(store, "waits", marks, until=str(until_file))
        await until(lambda: lines(marks))
        for _ in range(4):
            killer = await ended(store, await started(store, "kills_parent", marks))
            assert (killer.status, killer.crashes) == (RunStatus.COMPLETED, 0)
        until_file.touch()
        run = await ended(store, neighbour)
    assert (run.status, run.crashes, run.losses) == (RunStatus.COMPLETED, 0, 0)


async def test_a_zygote_that_is_stopped_is_replaced_when_a_slot_is_needed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote_link, "FORK_TIMEOUT_SEC", 0.5)
    marks = tmp_path / "marks"
    async with serving(store.config):
        first = await ended(store, await started(store, "pid", marks))
        zygote = parent_of(output_of(first, "pid"))
        os.kill(zygote, signal.SIGSTOP)
        run = await ended(store, await started(store, "leaves_child", marks))
        assert (run.status, run.crashes) == (RunStatus.FAILED, store.config.max_crashes)
        await until(lambda: not is_alive(zygote))
        pids = [int(line.split()[1]) for line in lines(marks)]
        await until(lambda: not any(map(is_alive, pids)))
        after = await ended(store, await started(store, "pid", marks))
        assert after.status is RunStatus.COMPLETED


async def test_a_slot_whose_fork_is_not_reported_ends_and_another_one_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote_link, "FORK_TIMEOUT_SEC", 1.0)
    handle, unreported = ZygoteLink._handle, list[int]()

    def handle_but_one(self: ZygoteLink, message: FromZygote) -> None:
        if isinstance(message, Forked) and not unreported:
            unreported.append(message.pid)
        else:
            handle(self, message)

    monkeypatch.setattr(ZygoteLink, "_handle", handle_but_one)
    async with pool_of(tmp_path) as pool:
        await until(lambda: not is_alive(unreported[0]))
        assert all(slot.is_alive() for slot in pool._free)
        assert pool.problem is None


async def test_slots_of_one_zygote_do_not_draw_the_same_random_numbers(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    drawn = set()
    async with serving(store.config):
        for _ in range(3):
            drawn.add((await ended(store, await started(store, "draws", marks))).tasks["draw"].output)
            slot = output_of(await ended(store, await started(store, "pid", marks)), "pid")
            os.kill(slot, signal.SIGKILL)
            await until(partial(_is_gone, slot))
    assert len(drawn) == 3


def test_the_generator_of_numpy_is_reseeded_where_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[object] = []
    monkeypatch.setitem(sys.modules, "numpy.random", SimpleNamespace(seed=lambda: seeds.append(None)))
    reseed()
    monkeypatch.delitem(sys.modules, "numpy.random")
    reseed()
    assert seeds == [None]


@pytest.mark.parametrize(
    ("sent", "group", "named"),
    [(signal.SIGTERM, False, "SIGTERM"), (signal.SIGKILL, True, "SIGKILL"), (37, False, "signal 37")],
)
async def test_a_run_that_signals_itself_or_its_group_names_the_signal_and_harms_no_other(
    store: Store, tmp_path: Path, sent: int, group: bool, named: str
) -> None:
    marks, until_file = tmp_path / "marks", tmp_path / "until"
    async with serving(replace(store.config, max_crashes=1), slots=2):
        other = await started(store, "waits", marks, until=str(until_file))
        await until(lambda: lines(marks))
        zygote = parent_of(int(lines(marks)[0].split()[1]))
        run_id = await started(store, "signals_itself", marks, signal=int(sent), group=group)
        run = await ended(store, run_id)
        assert (run.status, run.crashes) == (RunStatus.FAILED, 1)
        assert f"killed by {named}" in str(run.error)
        until_file.touch()
        assert (await ended(store, other)).status is RunStatus.COMPLETED
        assert is_alive(zygote)


async def test_a_run_that_forks_or_leaves_with_sys_exit_leaves_its_slot_usable(
    store: Store, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        before = (await ended(store, await started(store, "pid", marks))).tasks["pid"].output
        forked = await ended(store, await started(store, "forks", marks))
        assert (forked.status, forked.tasks["fork"].output) == (RunStatus.COMPLETED, 5)
        await until(lambda: any(line.startswith("daemon") for line in lines(marks)))
        daemon = next(int(line.split()[1]) for line in lines(marks) if line.startswith("daemon"))
        try:
            left = await ended(store, await started(store, "exits_in_python", marks))
            assert (left.status, left.crashes) == (RunStatus.FAILED, 0)
            assert "sys.exit(4)" in str(left.error)
            after = (await ended(store, await started(store, "pid", marks))).tasks["pid"].output
        finally:
            os.kill(daemon, signal.SIGKILL)
    assert before == after


async def test_an_idle_slot_that_is_killed_is_replaced_before_it_is_needed(tmp_path: Path) -> None:
    async with pool_of(tmp_path) as pool:
        killed, other = pids_of(pool)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: len(pool._free) == 2 and killed not in pids_of(pool))
        assert other in pids_of(pool)
        assert len({parent_of(pid) for pid in pids_of(pool)}) == 1


async def test_what_an_idle_slot_had_started_ends_with_it(store: Store, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    async with serving(store.config):
        slot = output_of(await ended(store, await started(store, "pid", marks)), "pid")
        child = output_of(await ended(store, await started(store, "leaves_idle_child", marks)), "start")
        assert is_alive(child)
        os.kill(slot, signal.SIGKILL)
        await until(lambda: not is_alive(child))
        # Not even a zombie is left of the slot.
        await until(lambda: not Path(f"/proc/{slot}").exists())


@pytest.fixture
def worker(store: Store, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    command = [*(sys.executable, "-m", "pyoco_server.cli.worker.main"), "--flow-resolver", SPEC]
    command += ["--concurrency", "2", "--slot-start", getattr(request, "param", "auto")]
    with subprocess.Popen(command, env=os.environ | environment_of(store.config)) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("stopped", [None, "zygote", "slot"])
@pytest.mark.parametrize("worker", ["auto", "imports", "fresh"], indirect=True)
async def test_a_worker_that_is_killed_leaves_no_process_behind(
    worker: subprocess.Popen[bytes], store: Store, tmp_path: Path, stopped: str | None
) -> None:
    marks = tmp_path / "marks"
    await started(store, "stubborn", marks)
    await until(lambda: len(lines(marks)) == 2, within_sec=30)
    found = {line.split()[0]: int(line.split()[1]) for line in lines(marks)}
    processes = {*below(worker.pid), *found.values()}
    if stopped is not None:
        slot = found["sleeping"]
        os.kill(slot if stopped == "slot" else parent_of(slot), signal.SIGSTOP)
    worker.kill()
    await until(lambda: not [pid for pid in processes if is_alive(pid)])


async def test_a_worker_that_stops_leaves_no_process_behind(
    worker: subprocess.Popen[bytes], store: Store, tmp_path: Path
) -> None:
    await ended(store, await started(store, "pid", tmp_path / "marks"))
    processes = [*below(worker.pid)]
    worker.terminate()
    assert worker.wait(20) == 0
    await until(lambda: not any(map(is_alive, processes)))


def test_a_zygote_imports_neither_settings_nor_the_client_of_the_broker() -> None:
    """Every slot would have them in its memory."""
    check = (
        "import sys, pyoco_server.worker.slots.zygote; print({*sys.modules} & {'pydantic', 'nats', 'uvloop'})"
    )
    assert subprocess.check_output([sys.executable, "-P", "-c", check], text=True).strip() == "set()"
