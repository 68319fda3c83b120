"""A server that dies unasked comes back where it was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import pytest

from pyoco_server.broker import EmbeddedBroker
from pyoco_server.broker import process as process_module
from pyoco_server.broker import supervisor as supervisor_module
from pyoco_server.broker.launch import launch
from pyoco_server.broker.supervisor import FIRST_BACKOFF_SEC, restart_backoff

if TYPE_CHECKING:
    from tests.broker.conftest import Eventually, IsRunning, MakeBroker


def kill(broker: EmbeddedBroker) -> int:
    pid = broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def has_restarted(broker: EmbeddedBroker, times: int) -> bool:
    return broker.restarts == times


def make_restarts_impossible(data_dir: Path) -> None:
    (data_dir / "jetstream").rename(data_dir / "away")
    (data_dir / "jetstream").write_text("a file where the store should be")


def make_restarts_possible(data_dir: Path) -> None:
    (data_dir / "jetstream").unlink()
    (data_dir / "away").rename(data_dir / "jetstream")


async def test_a_killed_server_is_back_on_its_port_with_its_data(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    restarted = asyncio.Event()
    broker = make_broker(on_restart=restarted.set)
    await broker.start()
    url = broker.url
    connection = await nats.connect(url)
    bucket = await connection.jetstream().create_key_value(bucket="kept")
    await bucket.put("key", b"value")
    await connection.close()

    old_pid = kill(broker)
    await asyncio.wait_for(restarted.wait(), 10)

    assert (broker.url, broker.restarts) == (url, 1)
    assert broker.pid not in (None, old_pid)
    assert json.loads((tmp_path / "data" / "broker.json").read_text())["pid"] == broker.pid
    connection = await nats.connect(url)
    bucket = await connection.jetstream().key_value("kept")
    assert (await bucket.get("key")).value == b"value"
    await connection.close()


async def test_every_death_is_answered(make_broker: MakeBroker, eventually: Eventually) -> None:
    broker = make_broker()
    await broker.start()
    for n in range(1, 4):
        kill(broker)
        await eventually(partial(has_restarted, broker, n))


async def test_a_mistake_in_on_restart_does_not_end_the_watch(
    make_broker: MakeBroker, eventually: Eventually
) -> None:
    def fail() -> None:
        raise ValueError("the caller's mistake")

    broker = make_broker(on_restart=fail)
    await broker.start()
    kill(broker)
    await eventually(lambda: broker.restarts == 1)
    kill(broker)
    await eventually(lambda: broker.restarts == 2)


async def test_restarts_go_on_until_one_succeeds(
    make_broker: MakeBroker, tmp_path: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(restart_backoff_max_sec=0.01)
    await broker.start()
    make_restarts_impossible(tmp_path / "data")
    kill(broker)
    await eventually(lambda: caplog.text.count("nats-server could not be restarted") >= 3)
    assert (broker.restarts, broker.pid) == (0, None)
    make_restarts_possible(tmp_path / "data")
    await eventually(lambda: broker.restarts == 1)


async def test_stopping_during_the_backoff_does_not_wait_for_it(
    make_broker: MakeBroker,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor_module, "FIRST_BACKOFF_SEC", 600.0)
    broker = make_broker(restart_backoff_max_sec=600)
    await broker.start()
    make_restarts_impossible(tmp_path / "data")
    kill(broker)
    await eventually(lambda: "nats-server could not be restarted" in caplog.text)
    await asyncio.wait_for(broker.stop(), 5)
    assert not (tmp_path / "data" / "broker.json").exists()


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 20, 50])
async def test_stopping_at_any_moment_of_a_restart_leaves_no_server(
    make_broker: MakeBroker, is_running: IsRunning, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    started: list[int] = []
    real_init = process_module.ServerProcess.__init__

    def remember(self: process_module.ServerProcess, process: asyncio.subprocess.Process) -> None:
        started.append(process.pid)
        real_init(self, process)

    monkeypatch.setattr(process_module.ServerProcess, "__init__", remember)
    broker = make_broker()
    await broker.start()
    kill(broker)
    for _ in range(steps):
        await asyncio.sleep(0.001)  # not a wait for something: the moments we want to hit
    await asyncio.wait_for(broker.stop(), 5)
    assert not any(is_running(pid) for pid in started)


async def test_stopping_does_not_wait_for_a_server_that_was_restarted_meanwhile(
    make_broker: MakeBroker, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker()
    await broker.start()
    real_end = process_module.ServerProcess.end
    is_launching, is_stopping = asyncio.Event(), asyncio.Event()

    async def end_after_the_restart(self: process_module.ServerProcess) -> None:
        is_stopping.set()
        await eventually(partial(has_restarted, broker, 1))
        await real_end(self)

    async def launch_while_stopping(*args: Any, **options: Any) -> process_module.ServerProcess:
        is_launching.set()
        await is_stopping.wait()
        return await launch(*args, **options | {"given_up": lambda: False})

    monkeypatch.setattr(process_module.ServerProcess, "end", end_after_the_restart)
    monkeypatch.setattr(supervisor_module, "launch", launch_while_stopping)
    waited: list[float] = []
    real_wait = asyncio.wait

    async def wait(futures: Any, *, timeout: float | None = None, **options: Any) -> Any:
        done, late = await real_wait(futures, timeout=timeout, **options)
        waited.extend(timeout or 0.0 for _ in late)
        return done, late

    monkeypatch.setattr("pyoco_server.supervision.loop.asyncio.wait", wait)
    kill(broker)
    await is_launching.wait()
    await asyncio.wait_for(broker.stop(), 60)
    assert not waited


async def test_a_server_deaf_to_sigterm_is_killed(
    make_broker: MakeBroker, is_running: IsRunning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "STOP_GRACE_SEC", 0.1)
    broker = make_broker()
    await broker.start()
    pid = broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await asyncio.wait_for(broker.stop(), 5)
    assert not is_running(pid)


def test_the_first_restart_is_at_once_and_the_next_ones_wait_longer_up_to_a_limit() -> None:
    first = FIRST_BACKOFF_SEC
    assert [restart_backoff(0.5).after(n) for n in range(6)] == [0, first, first * 2, first * 4, 0.5, 0.5]
    assert restart_backoff(5.0).after(100_000) == 5.0


async def test_a_server_that_hangs_is_reported_until_it_answers_again(
    make_broker: MakeBroker, eventually: Eventually
) -> None:
    broker = make_broker()
    await broker.start()
    pid = broker.pid
    assert pid is not None
    assert broker.why_not is None
    os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(5):
            await eventually(lambda: broker.why_not is not None)
        assert "does not answer" in str(broker.why_not)
    finally:
        os.kill(pid, signal.SIGCONT)
    await eventually(lambda: broker.why_not is None)
    assert (broker.pid, broker.restarts) == (pid, 0)


async def test_why_it_cannot_be_restarted_is_told(
    make_broker: MakeBroker, tmp_path: Path, eventually: Eventually
) -> None:
    broker = make_broker(restart_backoff_max_sec=0.01)
    await broker.start()
    make_restarts_impossible(tmp_path / "data")
    kill(broker)
    await eventually(lambda: "not a directory" in str(broker.why_not).lower())
    make_restarts_possible(tmp_path / "data")
    await eventually(lambda: broker.why_not is None)
    assert broker.restarts == 1


async def test_a_port_that_was_taken_meanwhile_is_told_and_waited_for(
    make_broker: MakeBroker, tmp_path: Path, eventually: Eventually
) -> None:
    broker = make_broker(restart_backoff_max_sec=0.05)
    await broker.start()
    make_restarts_impossible(tmp_path / "data")
    kill(broker)
    await eventually(lambda: broker.pid is None)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", broker.port))
        other.listen()
        make_restarts_possible(tmp_path / "data")
        await eventually(lambda: f"Port {broker.port}" in str(broker.why_not))
    await eventually(lambda: broker.why_not is None)
