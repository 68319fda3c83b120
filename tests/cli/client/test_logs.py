"""`pyoco-client logs`, against a real `up`: what a run printed, and what it prints."""

from __future__ import annotations

import json

import pytest

from tests.cli.client.test_client import UNKNOWN, Client
from tests.cli.programs import Programs, Up, wait_for


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def shown(client: Client, *arguments: object) -> str:
    program = client.run("logs", *arguments)
    assert program.ended() == 0, program.errors
    return program.output


def test_lines_of_a_run_that_is_over(client: Client) -> None:
    run_id = client.submit("parallel")
    followed = client.run("logs", "-f", run_id)
    assert followed.ended() == 0, followed.errors
    lines = followed.output.splitlines()
    assert lines[-1] == "run completed"
    assert shown(client, "--run-id", run_id).splitlines() == lines
    assert shown(client, run_id, "--tail", 1) == "run completed\n"
    found = shown(client, run_id, "--grep", "started", "--output", "json")
    entries = [json.loads(line) for line in found.splitlines()]
    assert len(entries) == sum(" started" in line for line in lines)
    name = entries[0]["task"]
    of_task = shown(client, run_id, "--task", name, "--since", "1h", "--output", "json")
    assert {json.loads(line)["task"] for line in of_task.splitlines()} == {name}
    assert shown(client, run_id, "--since", "2100-01-01T00:00:00Z") == ""


def test_a_run_is_followed_while_it_prints(client: Client) -> None:
    run_id = client.submit("ticker")
    following = client.start("logs", "-f", run_id)
    wait_for(lambda: "started" in following.output, "a line on stdout")
    client.json("cancel", run_id)
    assert following.ended() == 0
    assert following.output.splitlines()[-1] == "run cancelled"


def test_what_cannot_be_shown(client: Client) -> None:
    assert client.run("logs", UNKNOWN).ended() == 1
    assert client.run("logs", UNKNOWN, "--since", "yesterday").ended() == 1
    assert client.run("logs").ended() == 1
