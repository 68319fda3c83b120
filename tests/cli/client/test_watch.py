"""`pyoco-client` after a submission, against a real `up`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.client.test_client import UNKNOWN, Client
from tests.cli.programs import Programs, Up, wait_for


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def test_a_run_that_completes_is_watched_to_its_end(client: Client) -> None:
    run_id = client.submit("parallel")
    watched = client.run("watch", "--run-id", run_id, "--until-terminal", "--records")
    assert watched.ended() == 0, watched.errors
    events = [json.loads(line) for line in watched.output.splitlines()]
    assert all(set(event) == {"event", "data"} for event in events)
    assert events[-1]["data"]["snapshot"]["status"] == "COMPLETED"
    assert events[-1]["data"]["snapshot"]["task_records"]["total"]["output"] == 10


def test_a_run_that_fails_ends_the_watch_with_2(client: Client) -> None:
    watched = client.run("watch", client.submit("fails"), "--until-terminal", "--output", "status")
    assert watched.ended() == 2
    ts, event, status, _ = watched.output.splitlines()[-1].split("\t")
    assert (event, status) == ("snapshot", "FAILED")
    assert float(ts) > 0


def test_a_run_that_is_cancelled_ends_the_watch_with_3(client: Client) -> None:
    run_id = client.submit("ticker")
    watching = client.start("watch", run_id, "--until-terminal", "--output", "status")
    wait_for(lambda: "RUNNING" in watching.output, "RUNNING on stdout")
    client.json("cancel", run_id)
    assert watching.ended() == 3


def test_a_watch_that_is_over_before_its_run_ends_with_8(client: Client) -> None:
    run_id = str(client.json("submit", "--tag", "nobody")["run_id"])
    assert client.run("watch", run_id, "--until-terminal", "--timeout-sec", 1).ended() == 8
    assert client.run("watch", run_id, "--until-terminal", "--max-events", 1).ended() == 8


def test_a_watch_without_a_wish_for_the_end_ends_with_0(client: Client) -> None:
    run_id = str(client.json("submit", "--tag", "nobody")["run_id"])
    for wish in (("--timeout-sec", 1), ("--max-events", 1)):
        watched = client.run("watch", run_id, *wish, "--output", "status")
        assert watched.ended() == 0
        assert len(watched.output.splitlines()) == 1


def test_pages_are_listed_with_their_cursor(client: Client) -> None:
    for _ in range(3):
        client.json("submit", "--tag", "paged")
    first = client.json("list-vnext", "--tag", "paged", "--limit", 2)
    second = client.json("list-vnext", "--tag", "paged", "--limit", 2, "--cursor", first["next_cursor"])
    assert [len(page["items"]) for page in (first, second)] == [2, 1]
    assert second["next_cursor"] is None
    assert client.json("list-vnext", "--updated-after", 9999999999)["items"] == []
    table = client.run("list-vnext", "--tag", "paged", "--limit", 1, "--output", "table").output
    assert first["items"][0]["run_id"] in table
    assert "next_cursor: " in table
    assert "task_records" in client.json("list", "--tag", "paged", "--full", "--limit", 1)[0]


def test_a_wrong_cursor_is_told_in_the_gateways_words(client: Client) -> None:
    refused = client.run("list-vnext", "--cursor", "x")
    assert refused.ended() == 1
    assert "ERR-PYOCO-0017" in refused.errors


def test_a_result_is_shown_and_its_absence_has_a_code(client: Client) -> None:
    assert client.json("result", client.submit("parallel"), "--wait") == 10
    failed = client.run("result", "--run-id", client.submit("fails"), "--wait")
    assert (failed.ended(), failed.output) == (2, "")
    assert "FAILED" in failed.errors
    waits = str(client.json("submit", "--tag", "nobody")["run_id"])
    assert client.run("result", waits).ended() == 8
    assert client.run("result", waits, "--wait", "--timeout-sec", 0.05).ended() == 8
    client.json("cancel", waits)
    assert client.run("result", waits, "--wait").ended() == 3


def test_a_run_is_tried_again(client: Client) -> None:
    failed = client.submit("fails")
    client.wait_for_status(failed, "FAILED")
    accepted = client.json("retry", failed)
    assert accepted["retry_of"] == failed
    again = client.run("retry", "--run-id", failed, "--from", "start", "--wait")
    assert again.ended() == 2
    assert json.loads(again.output)["retry_of"] == failed
    waits = str(client.json("submit", "--tag", "nobody")["run_id"])
    refused = client.run("retry", waits)
    assert refused.ended() == 1
    assert "HTTP 409" in refused.errors


def test_a_run_is_executed_again_from_a_task_on_with_other_parameters(client: Client, tmp_path: Path) -> None:
    old = client.submit("hello")
    client.wait_for_status(old, "COMPLETED")
    (task,) = client.json("get", old)["tasks"]
    given = tmp_path / "params.json"
    given.write_text('{"name": "Bob"}')
    for params in (["--params", '{"name": "Bob"}'], ["--params-file", str(given)]):
        forked = client.run("retry", old, "--from-task", task, *params, "--wait")
        assert forked.ended() == 0
        run = json.loads(forked.output)
        assert (run["retry_of"], run["retry_from"], run["params"]) == (old, task, {"name": "Bob"})
    refused = client.run("retry", old, "--from-task", "nobody")
    assert refused.ended() == 1
    assert "HTTP 422" in refused.errors
    assert task in refused.errors


def test_an_unknown_run_ends_with_1_and_says_so(client: Client) -> None:
    for command in ("watch", "result", "retry"):
        refused = client.run(command, "--run-id", UNKNOWN)
        assert refused.ended() == 1
        assert "HTTP 404" in refused.errors
        assert "ERR-PYOCO-0005" in refused.errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch"],
        ["watch", "a", "--run-id", "b"],
        ["watch", "a", "--output", "table"],
        ["watch", "a", "--timeout-sec", "0"],
        ["retry", "a", "--from", "middle"],
        ["retry", "a", "--from", "start", "--from-task", "b"],
        ["retry", "a", "--params", "[1]"],
        ["retry", "a", "--params", "{"],
        ["result"],
        ["list-vnext", "--updated-after", "soon"],
    ],
)
def test_wrong_arguments_end_with_1_and_an_example(programs: Programs, arguments: list[str]) -> None:
    refused = programs.run("pyoco-client", *arguments)
    assert refused.ended() == 1
    assert "ERR-PYOCO-0018" in refused.errors
    assert "try:   " in refused.errors


def test_help_lists_every_command(programs: Programs) -> None:
    said = programs.run("pyoco-client", "run", "--help").output
    assert [name for name in ("watch", "pages", "result", "retry") if name not in said] == []
