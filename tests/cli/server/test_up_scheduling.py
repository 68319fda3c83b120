"""With durability `interval` all processes of `up` are scheduled as batch; user code never is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import StartUp
from tests.cli.programs import Up, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scheduling classes of Linux")

FLOWS = """
import os, subprocess, sys
from pyoco import Flow, task

ASK = "import os; print(os.sched_getscheduler(0))"

def resolve(name):
    @task
    def classes() -> list:
        child = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
        return [os.sched_getscheduler(0), int(child.stdout)]
    return Flow(name) >> classes
"""


def test_our_processes_are_batch_with_interval_and_user_code_is_not(
    start_up: StartUp, tmp_path: Path
) -> None:
    up = _start(start_up, tmp_path, "--durability", "interval")
    assert [os.sched_getscheduler(pid) for pid in up.pids] == [os.SCHED_BATCH] * 3
    assert _classes_of_user_code(up) == [os.SCHED_OTHER] * 2


def test_with_always_only_the_worker_is_batch(start_up: StartUp, tmp_path: Path) -> None:
    up = _start(start_up, tmp_path)
    assert _classes_of_user_code(up) == [os.SCHED_OTHER] * 2
    classes = [os.sched_getscheduler(pid) for pid in up.pids]
    assert classes == [os.SCHED_OTHER, os.SCHED_OTHER, os.SCHED_BATCH]


def _start(start_up: StartUp, tmp_path: Path, *arguments: object) -> Up:
    flows = tmp_path / "flows.py"
    flows.write_text(FLOWS)
    return start_up("--flow-resolver", f"{flows}:resolve", "--concurrency", 1, *arguments)


def _classes_of_user_code(up: Up) -> list[int]:
    run_id = httpx.post(f"{up.url}/runs", json={"flow_name": "x"}).json()["run_id"]
    run = wait_for(lambda: _ended(up, run_id), "the end of the run")
    assert run is not None
    assert run["status"] == "COMPLETED", run
    classes: list[int] = run["task_records"]["classes"]["output"]
    return classes


def _ended(up: Up, run_id: str) -> dict[str, Any] | None:
    run: dict[str, Any] = httpx.get(f"{up.url}/runs/{run_id}?include=records").json()
    return run if run["status"] in ("COMPLETED", "FAILED") else None
