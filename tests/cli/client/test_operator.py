"""The operator's commands of `pyoco-client` against a real `up`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import Program, Programs, Up, wait_for
from tests.store.fleet.wheel_making import file_name, made


class Client:
    def __init__(self, programs: Programs, up: Up) -> None:
        self._programs = programs
        self._up = up

    def run(self, *arguments: object) -> Program:
        return self._programs.run("pyoco-client", "--server", self._up.url, *arguments)

    def json(self, *arguments: object) -> Any:
        program = self.run(*arguments)
        assert program.ended() == 0, program.errors
        return json.loads(program.output)


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def test_workers_as_json_and_as_a_table(client: Client) -> None:
    [worker] = wait_for(lambda: client.json("workers"), "a worker")  # `up` is ready before its worker is
    assert worker["tags"] == ["demo"]
    asked = ("--scope", "all", "--state", "IDLE", "--limit", 5)
    table = client.run("workers", *asked, "--output", "table").output
    assert worker["worker_id"] in table
    assert "IDLE" in table
    refused = client.run("workers", "--scope", "some")
    assert refused.ended() == 1
    assert "ERR-PYOCO-0019" in refused.errors


def test_a_worker_is_hidden_and_shown(client: Client) -> None:
    [worker] = wait_for(lambda: client.json("workers"), "a worker")
    name = worker["worker_id"]
    assert client.json("worker-hide", "--worker-id", name)["hidden"] is True
    assert client.json("workers") == []
    assert len(client.json("workers", "--include-hidden")) == 1
    assert client.json("worker-hide", "--worker-id", name, "--no-hidden")["hidden"] is False
    refused = client.run("worker-hide", "--worker-id", "nobody")
    assert refused.ended() == 1
    assert "ERR-PYOCO-0020" in refused.errors


def test_a_worker_is_drained_waited_for_and_resumed(client: Client) -> None:
    [worker] = wait_for(lambda: client.json("workers"), "a worker")
    name = worker["worker_id"]
    drained = client.json("worker-drain", "--worker-id", name, "--wait", "--timeout-sec", 60)
    assert (drained["worker_id"], drained["draining"], drained["drained"]) == (name, True, True)
    assert client.json("workers")[0]["draining"] is True
    assert "draining" in client.run("workers", "--output", "table").output
    run_id = client.json("submit", "--flow-name", "hello", "--tag", "demo")["run_id"]
    assert client.json("get", run_id, "--output", "json")["status"] == "PENDING"
    assert client.json("worker-resume", "--worker-id", name)["draining"] is False
    assert client.json("result", run_id, "--wait", "--timeout-sec", 60)
    refused = client.run("worker-drain", "--worker-id", "nobody", "--wait")
    assert refused.ended() == 1
    assert "ERR-PYOCO-0020" in refused.errors


def test_who_waits_in_vain_for_a_worker_to_drain_is_told_by_the_exit_code(client: Client) -> None:
    [worker] = wait_for(lambda: client.json("workers"), "a worker")
    name = worker["worker_id"]
    run_id = client.json("submit", "--flow-name", "ticker", "--tag", "demo", "--param", "seconds=60")[
        "run_id"
    ]
    wait_for(lambda: client.json("get", run_id)["status"] == "RUNNING", "the run")
    late = client.run("worker-drain", "--worker-id", name, "--wait", "--timeout-sec", 0)
    assert late.ended() == 8
    assert f"Worker {name} still has runs. It drains on." in late.errors
    client.json("worker-resume", "--worker-id", name)
    client.json("cancel", run_id)


def test_metrics_are_printed_as_they_are(client: Client) -> None:
    program = client.run("metrics")
    assert program.ended() == 0
    assert "pyoco_workers_alive_total 1\n" in program.output


def test_wheels_are_brought_listed_fetched_and_deleted(client: Client, tmp_path: Path) -> None:
    assert client.json("wheels") == []
    file = made(tmp_path, "demo", "1.0")
    wheel = client.json("wheel-upload", "--wheel-file", file, "--tags", "cpu, linux", "--no-replace")
    assert (wheel["name"], wheel["tags"]) == (file.name, ["cpu", "linux"])
    assert client.json("wheels") == [wheel]
    assert file.name in client.run("wheels", "--output", "table").output
    refused = client.run("wheel-upload", "--wheel-file", file)
    assert refused.ended() == 1
    assert "HTTP 409" in refused.errors
    assert "ERR-PYOCO-0022" in refused.errors
    client.json("wheel-download", "--name", file.name, "--to", tmp_path / "again.whl")
    assert (tmp_path / "again.whl").read_bytes() == file.read_bytes()
    assert client.json("wheel-delete", "--name", file.name) == {"name": file.name, "deleted": True}
    history = client.json("wheel-history", "--limit", 10, "--wheel-name", file.name)
    assert [entry["action"] for entry in history] == ["delete", "upload"]
    assert len(client.json("wheel-history", "--action", "delete")) == 1
    assert "upload" in client.run("wheel-history", "--output", "table").output
    missing = client.run("wheel-delete", "--name", file.name)
    assert (missing.ended(), "ERR-PYOCO-0023" in missing.errors) == (1, True)


def test_a_wheel_file_that_cannot_be_read_is_a_wrong_argument(client: Client, tmp_path: Path) -> None:
    for arguments in (["--wheel-file", tmp_path / file_name("demo", "9")], []):
        refused = client.run("wheel-upload", *arguments)
        assert refused.ended() == 1
        assert "ERR-PYOCO-0018" in refused.errors
        assert "pyoco-client wheel upload dist/demo" in refused.errors


def test_dead_letters_are_listed_shown_and_redriven(client: Client) -> None:
    run_id = client.json("submit", "--flow-name", "fails", "--tag", "demo")["run_id"]
    letters = wait_for(lambda: client.json("dlq", "list", "--limit", 1)["items"], "the letter")
    assert letters[0]["run_id"] == run_id
    letter_id = letters[0]["id"]
    assert run_id in client.run("dlq", "list", "--reason", "execution_error", "--output", "table").output
    assert client.json("dlq", "get", letter_id)["redriven_as"] is None
    redriven = client.json("dlq", "redrive", letter_id)["run_id"]
    refused = client.run("dlq", "redrive", letter_id)
    assert (refused.ended(), redriven in refused.errors) == (1, True)
    assert client.json("dlq", "redrive", letter_id, "--again")["run_id"] != redriven
    assert client.run("dlq").ended() == 1
