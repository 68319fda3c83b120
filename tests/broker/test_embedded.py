"""Starting and stopping a real server, and what is left in its folder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import nats
import pytest

from pyoco_server.broker import (
    BrokerFailedToStart,
    DataFolderInUse,
    Durability,
    recorded_broker_url,
)
from pyoco_server.broker import embedded as embedded_module
from pyoco_server.broker import prepare as prepare_module

if TYPE_CHECKING:
    from tests.broker.conftest import Eventually, IsRunning, MakeBroker


async def put(url: str, key: str, value: bytes) -> None:
    connection = await nats.connect(url)
    bucket = await connection.jetstream().create_key_value(bucket="kept")
    await bucket.put(key, value)
    await connection.close()


async def get(url: str, key: str) -> bytes | None:
    connection = await nats.connect(url)
    bucket = await connection.jetstream().key_value("kept")
    entry = await bucket.get(key)
    await connection.close()
    return entry.value


async def test_a_started_broker_is_where_it_says(make_broker: MakeBroker, free_port: int) -> None:
    async with make_broker() as broker:
        assert broker.url == f"nats://127.0.0.1:{free_port}"
        assert broker.port == free_port
        assert broker.durability == "always"
        assert broker.restarts == 0
        connection = await nats.connect(broker.url)
        assert connection.max_payload == 1024 * 1024
        await connection.close()


@pytest.mark.parametrize(("durability", "sync"), [("always", "always"), ("interval", '"100ms"')])
async def test_both_durabilities_reach_the_server(
    make_broker: MakeBroker, tmp_path: Path, durability: Durability, sync: str
) -> None:
    async with make_broker(durability=durability) as broker:
        assert f"sync_interval: {sync}\n" in (tmp_path / "data" / "nats-server.conf").read_text()
        await put(broker.url, "durability", durability.encode())
        assert await get(broker.url, "durability") == durability.encode()


async def test_the_store_lies_below_the_data_folder(make_broker: MakeBroker, tmp_path: Path) -> None:
    async with make_broker() as broker:
        await put(broker.url, "key", b"value")
        assert list((tmp_path / "data" / "jetstream").rglob("KV_kept"))


async def test_data_survives_a_stop_and_a_start(make_broker: MakeBroker) -> None:
    broker = make_broker()
    await broker.start()
    await put(broker.url, "key", b"value")
    await broker.stop()
    await broker.start()
    assert await get(broker.url, "key") == b"value"


async def test_starting_twice_is_starting_once(make_broker: MakeBroker) -> None:
    broker = make_broker()
    await asyncio.gather(broker.start(), broker.start())
    pid = broker.pid
    await broker.start()
    assert broker.pid == pid


async def test_stopping_twice_is_stopping_once(make_broker: MakeBroker, is_running: IsRunning) -> None:
    broker = make_broker()
    await broker.stop()
    await broker.start()
    pid = broker.pid
    assert pid is not None
    await asyncio.gather(broker.stop(), broker.stop())
    await broker.stop()
    assert broker.pid is None
    assert not is_running(pid)


async def test_the_record_tells_other_commands_where_it_is_until_it_stops(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    async with make_broker() as broker:
        record = json.loads((tmp_path / "data" / "broker.json").read_text())
        assert record.pop("started_at").startswith("20")
        assert record == {
            "url": broker.url,
            "port": broker.port,
            "pid": broker.pid,
            "owner_pid": os.getpid(),
            "durability": "always",
        }
        assert recorded_broker_url(tmp_path / "data") == broker.url
    assert not (tmp_path / "data" / "broker.json").exists()
    assert recorded_broker_url(tmp_path / "data") is None


async def test_a_second_start_on_the_folder_names_the_owner(make_broker: MakeBroker) -> None:
    async with make_broker() as first:
        with pytest.raises(DataFolderInUse, match=f"pid {os.getpid()} "):
            await make_broker().start()
        await put(first.url, "undisturbed", b"yes")


async def test_a_busy_preferred_port_means_another_port_which_is_recorded(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taker:
        busy_port: int = taker.getsockname()[1]
        async with make_broker(preferred_port=busy_port) as broker:
            assert broker.port != busy_port
            assert recorded_broker_url(tmp_path / "data") == broker.url
            await put(broker.url, "key", b"value")


async def test_a_port_taken_in_the_last_moment_is_no_failure(
    make_broker: MakeBroker, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taker:
        taken: int = taker.getsockname()[1]
        choices = iter([taken, free_port])
        monkeypatch.setattr(prepare_module, "choose_port", lambda *_: next(choices))
        async with make_broker() as broker:
            assert broker.port == free_port


async def test_another_nats_on_the_port_is_not_taken_for_ours(
    make_broker: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_broker(data_dir=tmp_path / "one") as one:
        monkeypatch.setattr(prepare_module, "choose_port", lambda *_: one.port)
        with pytest.raises(BrokerFailedToStart, match="is taken by another program"):
            await make_broker(data_dir=tmp_path / "two").start()


async def test_a_server_that_cannot_start_says_why(make_broker: MakeBroker, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "jetstream").write_text("a file where the store should be")
    broker = make_broker()
    with pytest.raises(BrokerFailedToStart, match=r"(?s)exited with code 1\. It said:.*JetStream"):
        await broker.start()
    assert broker.pid is None
    (tmp_path / "data" / "jetstream").unlink()
    await broker.start()  # the folder was released, so a second try is possible


async def test_a_server_that_hangs_at_start_is_ended(
    make_broker: MakeBroker, tmp_path: Path, is_running: IsRunning, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    program = tmp_path / "hanging-server"
    program.write_text(f"#!/bin/sh\necho $$ > {pid_file}\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(embedded_module, "find_nats_server", lambda: program)
    with pytest.raises(BrokerFailedToStart, match=r"not ready within 0\.2 s"):
        await make_broker(ready_timeout_sec=0.2).start()
    assert not is_running(int(pid_file.read_text()))


async def test_a_cancelled_start_leaves_nothing_behind(
    make_broker: MakeBroker,
    tmp_path: Path,
    is_running: IsRunning,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pid_file = tmp_path / "pid"
    program = tmp_path / "hanging-server"
    program.write_text(f"#!/bin/sh\necho $$ > {pid_file}\nexec sleep 600\n")
    program.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setattr(embedded_module, "find_nats_server", lambda: program)
        starting = asyncio.create_task(make_broker().start())
        await eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert not is_running(int(pid_file.read_text()))
    await make_broker().start()  # the folder is free


async def test_a_healthy_broker_is_quiet(make_broker: MakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="pyoco_server.broker")
    async with make_broker() as broker:
        pid = broker.pid
    said = [r for r in caplog.records if getattr(r, "broker_pid", None) == pid]
    assert "Server is ready" in [r.getMessage() for r in said]
    assert max(r.levelno for r in said) == logging.INFO


def test_there_is_no_port_before_the_start(make_broker: MakeBroker) -> None:
    broker = make_broker()
    assert broker.pid is None
    with pytest.raises(RuntimeError, match="before it is started"):
        _ = broker.url
