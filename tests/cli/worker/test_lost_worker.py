"""A worker is killed while it has a run: the run says that no live worker has it, until one takes it over."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import httpx

from tests.cli.conftest import starter
from tests.cli.programs import Program, Programs, Up, wait_for

FLOWS = """
import time
from pathlib import Path
from pyoco import Flow, task

@task
def wait(gate: str = "") -> str:
    while not Path(gate).exists():
        time.sleep(0.02)
    return "done"

def resolve(name):
    return Flow(name) >> wait
"""


def test_a_run_whose_worker_was_killed_says_so_until_it_is_taken_over(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        (tmp_path / "lost_flows.py").write_text(FLOWS)
        up = starter(programs)()
        worker = start_worker(programs, up, "first")
        gate = tmp_path / "gate"
        run_id = submit(up, str(gate))
        wait_for(lambda: shown(up, run_id).get("worker_alive") is True, "a worker that has it")
        assert "worker_alive" not in listed(up, run_id)
        pushed: list[dict[str, Any]] = []
        reader = threading.Thread(target=follow, args=(up, run_id, pushed), daemon=True)
        reader.start()
        wait_for(lambda: pushed, "the first snapshot")
        worker.send(signal.SIGKILL)
        wait_for(lambda: pushed[-1].get("worker_alive") is False, "a snapshot that is pushed")
        assert shown(up, run_id)["worker_alive"] is False
        assert shown(up, run_id)["status"] == "RUNNING"
        wait_for(lambda: listed(up, run_id).get("worker_alive") is False, "the list")
        # Its registry entry reads alive for another twenty seconds; its lease does not.
        wait_for(lambda: "No live worker" in why(up, run_id), "why it does not move")
        start_worker(programs, up, "second")
        wait_for(lambda: shown(up, run_id).get("worker_alive") is True, "the other worker")
        assert shown(up, run_id)["worker_id"] == "second"
        gate.touch()
        reader.join(30)
        assert pushed[-1]["status"] == "COMPLETED"
        assert "worker_alive" not in shown(up, run_id)
    finally:
        programs.end_all()


def start_worker(programs: Programs, up: Up, name: str) -> Program:
    flows = ("--flow-resolver", f"{programs.folder / 'lost_flows.py'}:resolve", "--concurrency", 1)
    arguments = (*flows, "--tags", "rev", "--data-dir", up.data_dir, "--worker-id", name)
    return programs.start("pyoco-worker", *arguments)


def submit(up: Up, gate: str) -> str:
    body = {"flow_name": "waits", "tag": "rev", "params": {"gate": gate}}
    return str(httpx.post(f"{up.url}/runs", json=body).raise_for_status().json()["run_id"])


def shown(up: Up, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{up.url}/runs/{run_id}").json()
    return found


def listed(up: Up, run_id: str) -> dict[str, Any]:
    runs: list[dict[str, Any]] = httpx.get(f"{up.url}/runs").json()
    return next(run for run in runs if run["run_id"] == run_id)


def why(up: Up, run_id: str) -> str:
    return str(httpx.get(f"{up.url}/executions/{run_id}/why").json()["summary"])


def follow(up: Up, run_id: str, pushed: list[dict[str, Any]]) -> None:
    """Every snapshot, until the run is over."""
    with httpx.stream("GET", f"{up.url}/runs/{run_id}/watch", timeout=60) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and "snapshot" in (data := json.loads(line[6:])):
                pushed.append(data["snapshot"])
