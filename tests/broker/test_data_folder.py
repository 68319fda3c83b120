"""Who owns a data folder, and what is read of one that nobody, or somebody dead, owns."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyoco_server.broker import DataFolderInUse, recorded_broker_url
from pyoco_server.broker import data_folder as data_folder_module
from pyoco_server.broker.data_folder import DataFolder

if TYPE_CHECKING:
    from tests.broker.conftest import RunScript

HOLD_A_FOLDER = """
import asyncio, sys
from pathlib import Path
from pyoco_server.broker.data_folder import DataFolder
folder = asyncio.run(DataFolder.claim(Path(sys.argv[1])))
folder.record({"url": "nats://127.0.0.1:1"})
print("held", flush=True)
sys.stdin.read()
"""

# The lock file goes on to a grandchild, as it does to a nats-server.
LEAVE_IT_TO_A_CHILD = """
import asyncio, subprocess, sys
from pathlib import Path
from pyoco_server.broker.data_folder import DataFolder
folder = asyncio.run(DataFolder.claim(Path(sys.argv[1])))
child = subprocess.Popen(["sleep", "600"], pass_fds=[folder.lock_fd], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""


async def test_a_claimed_folder_says_who_has_it_and_what_to_do(tmp_path: Path) -> None:
    folder = await DataFolder.claim(tmp_path)
    with pytest.raises(DataFolderInUse) as refused:
        await DataFolder.claim(tmp_path)
    assert f"in use by pid {os.getpid()} (" in str(refused.value)
    assert " since 20" in str(refused.value)
    assert "stop it first, or choose another data folder" in str(refused.value)
    folder.release()


async def test_a_released_folder_can_be_claimed_again(tmp_path: Path) -> None:
    (await DataFolder.claim(tmp_path)).release()
    (await DataFolder.claim(tmp_path)).release()


async def test_a_folder_that_does_not_exist_is_made_for_its_owner_only(tmp_path: Path) -> None:
    folder = await DataFolder.claim(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    folder.release()


async def test_the_lock_tells_no_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/bin/pyoco-server", "up", "--nats", "nats://me:secret@there"])
    folder = await DataFolder.claim(tmp_path)
    assert json.loads((tmp_path / "lock").read_text())["command"] == "pyoco-server"
    folder.release()


async def test_a_record_is_found_while_its_owner_lives(tmp_path: Path) -> None:
    folder = await DataFolder.claim(tmp_path)
    assert recorded_broker_url(tmp_path) is None
    folder.record({"url": "nats://127.0.0.1:4999"})
    assert recorded_broker_url(tmp_path) == "nats://127.0.0.1:4999"
    folder.release()
    assert recorded_broker_url(tmp_path) is None


@pytest.mark.parametrize("garbage", ["", "{", "[]", "{}", '{"url": 7}', "\0"])
async def test_garbage_instead_of_a_record_is_no_broker(tmp_path: Path, garbage: str) -> None:
    folder = await DataFolder.claim(tmp_path)
    (tmp_path / "broker.json").write_text(garbage)
    assert recorded_broker_url(tmp_path) is None
    folder.release()


def test_a_folder_without_anything_has_no_broker(tmp_path: Path) -> None:
    assert recorded_broker_url(tmp_path / "nowhere") is None


async def test_a_killed_owner_leaves_neither_lock_nor_broker(tmp_path: Path, run_script: RunScript) -> None:
    owner = run_script(HOLD_A_FOLDER, tmp_path)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "held\n"
    assert recorded_broker_url(tmp_path) == "nats://127.0.0.1:1"
    owner.kill()
    owner.wait()
    assert recorded_broker_url(tmp_path) is None
    (await DataFolder.claim(tmp_path)).release()


async def test_a_server_that_outlives_its_owner_keeps_the_folder(
    tmp_path: Path, run_script: RunScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder_module, "ORPHAN_PATIENCE_SEC", 0.05)
    owner = run_script(LEAVE_IT_TO_A_CHILD, tmp_path)
    child_pid = int(owner.communicate()[0])
    try:
        with pytest.raises(DataFolderInUse, match=f"belonged to pid {owner.pid} .* which is gone"):
            await DataFolder.claim(tmp_path)
    finally:
        os.kill(child_pid, signal.SIGKILL)
    monkeypatch.undo()
    (await DataFolder.claim(tmp_path)).release()
