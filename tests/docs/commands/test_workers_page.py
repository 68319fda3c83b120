"""The commands of the pages about workers and about the end of a machine, and the unit of a worker."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import BIN, clean_environment, wait_for
from tests.docs.test_examples import blocks, run_id_of, typed, up

PAGE = "docs/operations/workers.md"
FLOWS = """
from pyoco import Flow, task

@task
def greet(name):
    print("greeting", name)
    return f"Hello, {name}!"

def resolve(name):
    return Flow(name) >> greet
"""


def test_a_worker_of_the_page_serves_its_tags(tmp_path: Path) -> None:
    (tmp_path / "my_flows.py").write_text(FLOWS)
    start, show, _ = (block.strip() for block in blocks(PAGE, "sh"))
    with up(tmp_path, "--no-worker") as port:
        command = shlex.split(start)
        environment = clean_environment(PYOCO_DATA_DIR="data")
        errors = (tmp_path / "errors").open("w")
        worker = subprocess.Popen(
            [BIN / command[0], *command[1:]], cwd=tmp_path, env=environment, stdout=errors, stderr=errors
        )
        try:
            ended = typed("pyoco-client submit any --tag gpu --param name=you --wait", port, tmp_path)
            assert ended.returncode == 0, ended.stderr
            shown = typed(
                f"{show.replace('<run_id>', run_id_of(ended.stdout))} --data-dir data", port, tmp_path
            )
            assert "greeting you" in [json.loads(line)["message"] for line in shown.stdout.splitlines()]
        finally:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0


def test_a_worker_drains_resumes_and_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have no systemd: a program of that name notes what it was asked for."""
    drain, resume = blocks(PAGE, "sh")[-1].splitlines()
    [remove] = [block.strip() for block in blocks("docs/operations/operations.md", "sh") if "drain" in block]
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text('#!/bin/sh\necho "$@" > asked\n')
    (tools / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    with up(tmp_path, "--worker-id", "w1") as port:
        wait_for(lambda: listed(port, tmp_path), "the worker")
        for line, drains in ((drain, True), (resume, False), (remove, True)):
            done = typed(line, port, tmp_path)
            assert done.returncode == 0, (line, done.stderr)
            [worker] = listed(port, tmp_path)
            assert worker["drain_requested"] is drains
    assert (tmp_path / "asked").read_text() == "stop pyoco-worker\n"


def listed(port: int, folder: Path) -> list[dict[str, object]]:
    workers: list[dict[str, object]] = json.loads(typed("pyoco-client worker list", port, folder).stdout)
    return workers


def unit() -> str:
    [found] = blocks("docs/operations/operations.md", "ini")
    return found


def test_the_unit_of_the_page_starts_a_worker(tmp_path: Path) -> None:
    (tmp_path / "my_flows.py").write_text(FLOWS)
    [command] = [line.partition("=")[2] for line in unit().splitlines() if line.startswith("ExecStart=")]
    program, *arguments = shlex.split(command.replace("%H", "here"))
    with up(tmp_path, "--no-worker") as port:
        environment = clean_environment(PYOCO_DATA_DIR="data")
        worker = subprocess.Popen([BIN / Path(program).name, *arguments], cwd=tmp_path, env=environment)
        try:
            found = wait_for(lambda: listed(port, tmp_path), "the worker")
            assert [one["worker_id"] for one in found] == ["here"]
        finally:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / Path(unit().splitlines()[0]).name
    file.write_text(unit().replace("/srv/flows/.venv/bin", str(BIN)))
    checked = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
    about_it = [line for line in checked.stderr.splitlines() if file.name in line]
    assert (checked.returncode, about_it) == (0, [])
