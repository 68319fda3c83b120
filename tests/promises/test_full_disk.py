"""A disk that fills up: new work is refused early, what is under way ends, and service resumes by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import starter
from tests.cli.programs import Programs, Up, wait_for
from tests.small_disk import MIB, SmallDisk, small_disk

FLOWS = """
import base64, os, time
from pyoco import Flow
from pyoco.core.models import Task

def talk(lines):
    for _ in range(lines):
        print(base64.b64encode(os.urandom(750)).decode())

def hold(gate):
    while not os.path.exists(gate):
        print(os.urandom(500).hex())
        time.sleep(0.01)
    return "done"

def resolve(name):
    flow = Flow(name=name)
    flow.tasks = {Task(func={"talk": talk, "hold": hold}[name], name=name)}
    return flow
"""
DISK_BYTES = 64 * MIB
RESERVE_BYTES = 16 * MIB
LINES = 3_000
KEPT_SEC = 15.0
FILL_RUNS_MAX = 200
SETTINGS = {
    "PYOCO_LOG_MAX_BYTES": str(48 * MIB),
    "PYOCO_DLQ_MAX_BYTES": str(MIB),
    "PYOCO_DISK_RESERVE_BYTES": str(RESERVE_BYTES),
    "PYOCO_DURABILITY": "interval",
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "1",
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", DISK_BYTES) as made:
        yield made


@pytest.fixture
def programs(tmp_path: Path, disk: SmallDisk) -> Iterator[Programs]:
    """Ended before the disk is unmounted."""
    (tmp_path / "talking.py").write_text(FLOWS)
    running = Programs(tmp_path)
    yield running
    running.end_all()


def started(programs: Programs, disk: SmallDisk, **settings: str) -> Up:
    flows = ("--flow-resolver", f"{programs.folder / 'talking.py'}:resolve", "--concurrency", 3)
    return starter(programs)(*flows, data_dir=disk.path / "data", **SETTINGS, **settings)


class Client:
    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=20)

    def submit(self, flow_name: str, **params: Any) -> httpx.Response:
        return self._http.post("/runs", json={"flow_name": flow_name, "params": params})

    def submitted(self, flow_name: str, **params: Any) -> str:
        answer = self.submit(flow_name, **params)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["run_id"])

    def status(self, run_id: str) -> str:
        return str(self._http.get(f"/runs/{run_id}").json().get("status"))

    def is_over(self, run_id: str) -> bool:
        """Also when it is erased already."""
        return self.status(run_id) in ("COMPLETED", "None")

    def is_not_ready(self, words: str) -> bool:
        return words in json.dumps(self.ready()["reasons"])

    def cancel(self, run_id: str) -> int:
        return self._http.post(f"/runs/{run_id}/cancel").status_code

    def ready(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._http.get("/ready").json()
        return answer

    def metric(self, name: str) -> float:
        lines = self._http.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def fill(client: Client) -> httpx.Response:
    """Runs that print, one after the other, until one is refused: that answer."""
    for _ in range(FILL_RUNS_MAX):
        answer = client.submit("talk", lines=LINES)
        if answer.status_code != 200:
            return answer
        wait_for(partial(client.is_over, answer.json()["run_id"]), "the end of a run")
    raise AssertionError("nothing was refused")


@pytest.mark.slow
def test_new_runs_are_refused_early_and_accepted_again_when_old_ones_were_erased(
    programs: Programs, disk: SmallDisk
) -> None:
    up = started(programs, disk, PYOCO_RUN_HISTORY_SEC=str(KEPT_SEC))
    client = Client(up.url)
    broker_pid = up.broker_pid
    gate = programs.folder / "gate"
    to_end, to_cancel = (client.submitted("hold", gate=str(gate)) for _ in range(2))

    refused = fill(client)
    assert refused.status_code == 503
    assert "storage" in refused.json()["message"]
    assert int(refused.headers["retry-after"]) >= 1
    ready = client.ready()
    assert not ready["ready"]
    assert "new runs are refused" in json.dumps(ready["reasons"])
    assert client.metric("pyoco_storage_low") == 1
    assert 0 < client.metric("pyoco_broker_disk_free_bytes") < DISK_BYTES / 2

    assert client.cancel(to_cancel) == 200
    wait_for(lambda: client.status(to_cancel) == "CANCELLED", "the cancel")
    gate.touch()
    wait_for(lambda: client.status(to_end) == "COMPLETED", "the end of the run under way")

    wait_for(lambda: client.submit("talk", lines=1).status_code == 200, "room for new runs")
    wait_for(lambda: client.ready()["ready"], "/ready")
    assert client.metric("pyoco_storage_low") == 0
    assert up.broker_pid == broker_pid  # the reserve was enough: the disk was never full


def test_a_disk_that_others_filled_ends_no_service_for_ever(programs: Programs, disk: SmallDisk) -> None:
    up = started(programs, disk)
    client = Client(up.url)
    gate = programs.folder / "gate"
    under_way = client.submitted("hold", gate=str(gate))
    wait_for(lambda: client.status(under_way) == "RUNNING")
    disk.fill(0)
    for words in ("cannot write", "new runs are refused"):
        wait_for(partial(client.is_not_ready, words), words)
    assert client.submit("talk", lines=1).status_code == 503

    disk.make_room()
    wait_for(lambda: client.submit("talk", lines=1).status_code == 200, "room for new runs")
    gate.touch()
    wait_for(lambda: client.status(under_way) == "COMPLETED", "the end of the run under way")
    wait_for(lambda: client.ready()["ready"], "/ready")
