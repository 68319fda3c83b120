"""`pyoco-client` against a real `up`: what it prints, and how it ends."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.cli.programs import Program, Programs, Up, wait_for
from tests.conftest import free_port

UNKNOWN = "00000000-0000-0000-0000-000000000000"


class Client:
    def __init__(self, programs: Programs, up: Up) -> None:
        self._programs = programs
        self._up = up

    def run(self, *arguments: object) -> Program:
        return self._programs.run("pyoco-client", "--server", self._up.url, *arguments)

    def start(self, *arguments: object) -> Program:
        return self._programs.start("pyoco-client", "--server", self._up.url, *arguments)

    def json(self, *arguments: object) -> Any:
        program = self.run(*arguments)
        assert program.ended() == 0, program.errors
        return json.loads(program.output)

    def submit(self, flow_name: str, *more: object) -> str:
        return str(self.json("submit", "--flow-name", flow_name, "--tag", "demo", *more)["run_id"])

    def wait_for_status(self, run_id: str, status: str) -> None:
        wait_for(lambda: self.json("get", run_id)["status"] == status, status)


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def test_submit_says_the_run_id(client: Client) -> None:
    accepted = client.json("submit", "--flow-name", "hello", "--tag", "demo")
    assert accepted["status"] == "PENDING"
    assert client.json("get", "--run-id", accepted["run_id"])["run_id"] == accepted["run_id"]


def test_waiting_for_a_run_that_completes_ends_with_0(client: Client) -> None:
    ended = client.run("submit", "--flow-name", "hello", "--tag", "demo", "--param", "name=you", "--wait")
    assert ended.ended() == 0, ended.errors
    run = json.loads(ended.output)
    assert (run["status"], run["params"]) == ("COMPLETED", {"name": "you"})


def test_waiting_for_a_run_that_fails_ends_with_2(client: Client) -> None:
    ended = client.run("submit", "--flow-name", "fails", "--tag", "demo", "--wait")
    assert ended.ended() == 2
    assert "This demo fails on purpose" in json.loads(ended.output)["error"]


def test_waiting_for_a_run_that_is_cancelled_ends_with_3(client: Client) -> None:
    waiting = client.start("submit", "--flow-name", "ticker", "--tag", "demo", "--tags", "three", "--wait")
    running = wait_for(lambda: client.json("list", "--flow", "ticker", "--status", "RUNNING"), "the ticker")
    cancelled = client.run("cancel", "--run-id", running[0]["run_id"], "--wait")
    assert cancelled.ended() == 0
    assert json.loads(cancelled.output)["status"] == "CANCELLED"
    assert waiting.ended() == 3


def test_waiting_longer_than_allowed_ends_with_8(client: Client) -> None:
    waited = client.run("submit", "--flow-name", "ticker", "--tag", "nobody", "--wait", "--timeout-sec", 0.05)
    assert waited.ended() == 8
    run_id = json.loads(waited.output)["run_id"]
    assert client.json("cancel", run_id)["status"] == "CANCELLING"


def test_a_cancel_that_is_not_through_in_time_ends_with_8(client: Client) -> None:
    run_id = client.submit("ticker")
    client.wait_for_status(run_id, "RUNNING")
    hurried = client.run("cancel", "--run-id", run_id, "--wait", "--timeout-sec", 0)
    assert hurried.ended() in (0, 8)  # 0 when the worker was faster than the question
    assert client.json("cancel", run_id, "--wait")["status"] == "CANCELLED"


def test_an_interrupt_ends_with_130(client: Client) -> None:
    waiting = client.start("submit", "--flow-name", "ticker", "--tag", "nobody-at-all", "--wait")
    wait_for(lambda: client.json("list", "--tag", "nobody-at-all"), "the run")
    waiting.send(signal.SIGINT)
    assert waiting.ended() == 130


def test_get_with_records_and_tasks_show_what_the_tasks_did(client: Client) -> None:
    run_id = client.submit("hello")
    client.wait_for_status(run_id, "COMPLETED")
    assert "task_records" not in client.json("get", run_id)
    records = client.json("get", "--run-id", run_id, "--records")["task_records"]
    assert records["greet"]["output"] == "Hello, world!"
    assert client.json("tasks", "--run-id", run_id)["tasks"] == {"greet": "SUCCEEDED"}
    assert client.json("tasks", run_id)["task_records"] == records


def test_list_filters_and_has_two_forms(client: Client) -> None:
    run_id = client.submit("fails")
    client.wait_for_status(run_id, "FAILED")
    listed = client.json("list", "--status", "FAILED", "--flow", "fails", "--limit", 1)
    assert [run["run_id"] for run in listed] == [run_id]
    table = client.run("list", "--tag", "demo", "--output", "table").output
    assert run_id in table
    assert "FAILED" in table


def test_an_unknown_run_ends_with_1_and_says_so(client: Client) -> None:
    for command in ("get", "tasks", "cancel"):
        refused = client.run(command, "--run-id", UNKNOWN)
        assert refused.ended() == 1
        assert "HTTP 404" in refused.errors
        assert f"There is no run {UNKNOWN}" in refused.errors
        assert refused.output == ""


def test_what_the_gateway_refuses_is_told_in_its_words(client: Client) -> None:
    refused = client.run("list", "--status", "DONE")
    assert refused.ended() == 1
    assert "HTTP 422" in refused.errors
    assert "status must be one of" in refused.errors
    assert client.run("submit", "--flow-name", "hello", "--tag", "a.b").ended() == 1


def test_without_a_gateway_it_says_how_to_start_one(programs: Programs) -> None:
    refused = programs.run("pyoco-client", "--server", f"http://127.0.0.1:{free_port()}", "list")
    assert refused.ended() == 1
    assert "pyoco-server up" in refused.errors
    assert "ERR-PYOCO-0001" in refused.errors


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sbmit"],
        ["get"],
        ["get", "a", "--run-id", "b"],
        ["list", "--limit", "many"],
        ["list", "--output", "xml"],
        ["submit", "--param", "novalue"],
        ["submit", "--params", "{"],
        ["submit", "--params", "[1]"],
        ["submit", "--params-file", "missing.json"],
        ["--server", "not an address", "list"],
    ],
)
def test_wrong_arguments_end_with_1_and_an_example(programs: Programs, arguments: list[str]) -> None:
    refused = programs.run("pyoco-client", *arguments)
    assert refused.ended() == 1
    assert "ERR-PYOCO-0018" in refused.errors
    assert "try:   " in refused.errors
    assert "Traceback" not in refused.errors


def test_help_lists_every_command(programs: Programs) -> None:
    said = programs.run("pyoco-client", "--help").output
    assert [name for name in ("submit", "get", "tasks", "list", "cancel") if name not in said] == []
    assert "Exit codes" in said
