"""What README and docs show is what a reader types: it is run here, line by line, against a real `up`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from pyoco_server import PyocoHttpClient
from tests.conftest import free_port

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
READY_LINE = "pyoco-server is ready"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@contextmanager
def up(folder: Path, *options: str) -> Iterator[int]:
    port = free_port()
    command = [
        str(BIN / "pyoco-server"),
        "up",
        "--port",
        str(port),
        "--data-dir",
        str(folder / "data"),
        *options,
    ]
    environment = os.environ | {"PYOCO_LOAD_DOTENV": "0"}
    environment.pop("PYOCO_NATS_URL", None)
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert any(READY_LINE in line for line in process.stderr)
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=30)


def typed(line: str, port: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one line of a document, with this test's port and our commands on the path."""
    line = line.replace("localhost:8000", f"127.0.0.1:{port}")
    line = line.replace("pyoco-client ", f"pyoco-client --server http://127.0.0.1:{port} ")
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(folder)}
    return subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)


def run_id_of(answer: str) -> str:
    return str(json.loads(answer)["run_id"])


def test_the_readme_commands_do_what_it_says(tmp_path: Path) -> None:
    lines = next(block for block in blocks("README.md", "sh") if "submit ticker" in block).splitlines()
    with up(tmp_path) as port:
        hello = typed(lines[0], port, tmp_path)
        assert (hello.returncode, json.loads(hello.stdout)["status"]) == (0, "COMPLETED")
        ticker = run_id_of(typed(lines[1], port, tmp_path).stdout)
        listed = typed(lines[2], port, tmp_path)
        assert ticker in listed.stdout
        cancelled = typed(lines[3].replace("<the ticker's id>", ticker), port, tmp_path)
        assert (cancelled.returncode, json.loads(cancelled.stdout)["status"]) == (0, "CANCELLED")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_readme_curl_lines_work(tmp_path: Path) -> None:
    lines = next(block for block in blocks("README.md", "sh") if block.startswith("curl")).splitlines()
    with up(tmp_path) as port:
        run_id = run_id_of(typed(lines[0], port, tmp_path).stdout)
        run = json.loads(typed(lines[1].replace("<run_id>", run_id), port, tmp_path).stdout)
        assert run["status"] == "COMPLETED"
        assert run["task_records"]["greet"]["output"] == "Hello, you!"
        assert [one["run_id"] for one in json.loads(typed(lines[2], port, tmp_path).stdout)] == [run_id]
        again = json.loads(typed(lines[3].replace("<run_id>", run_id), port, tmp_path).stdout)
        assert again["status"] == "COMPLETED"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_same_request_twice_is_one_run(tmp_path: Path) -> None:
    (block,) = blocks("docs/reference/idempotency.md", "sh")
    with up(tmp_path) as port:
        first, again, known = (typed(line, port, tmp_path).stdout for line in block.splitlines())
    body = first.splitlines()[-1]
    assert again.splitlines()[-1] == body
    assert "idempotency-replayed: true" in again.lower()
    assert "idempotency-replayed" not in first.lower()
    assert json.loads(known)["answer"] == json.loads(body)


def test_the_readme_flow_runs(tmp_path: Path) -> None:
    flow = next(block for block in blocks("README.md", "python") if block.startswith("# my_flows.py"))
    (tmp_path / "my_flows.py").write_text(flow)
    submit = next(block for block in blocks("README.md", "sh") if "submit measure" in block).splitlines()[1]
    with up(tmp_path, "--flow-resolver", "my_flows.py:resolve") as port:
        ended = typed(submit, port, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["tasks"] == {"fetch": "SUCCEEDED", "count": "SUCCEEDED"}


def test_the_example_of_a_worker_serves_runs_until_it_is_stopped(tmp_path: Path) -> None:
    with up(tmp_path, "--no-worker") as port, PyocoHttpClient(f"http://127.0.0.1:{port}") as client:
        broker = httpx.get(f"http://127.0.0.1:{port}/ready").json()["broker"]["url"]
        environment = os.environ | {"PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": broker}
        command = [sys.executable, str(ROOT / "examples" / "run_worker.py"), "cpu"]
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            run = client.submit_run("greeting", {"name": "you"}, "cpu")
            assert client.result(run["run_id"], timeout=30) == "Hello, You!"
        finally:
            worker.terminate()
            worker.communicate(timeout=30)
        assert worker.returncode == 0
        assert [one["state"] for one in client.get_workers(scope="all")] == ["STOPPED_GRACEFUL"]
