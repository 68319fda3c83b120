"""`cancel --filter`: which runs it names, that it asks, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.cli.client.test_client import Client
from tests.cli.programs import Programs, Up
from tests.cli.terminal import terminal


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def waiting_runs(client: Client, tag: str, count: int = 3) -> list[str]:
    """No worker serves the tag."""
    return [str(client.json("submit", "hello", "--tag", tag)["run_id"]) for _ in range(count)]


def test_a_dry_run_lists_the_runs_and_cancels_none(client: Client) -> None:
    runs = waiting_runs(client, "dry")
    found = client.json("cancel", "--filter", "tag=dry", "--dry-run")
    assert {run["run_id"] for run in found} == set(runs)
    assert {run["status"] for run in client.json("list", "--tag", "dry")} == {"PENDING"}
    assert client.json("cancel", "--filter", "tag=dry", "--filter", "flow=other", "--dry-run") == []
    assert client.json("cancel", "--filter", "tag=dry", "--filter", "status=RUNNING", "--dry-run") == []
    client.json("cancel", "--filter", "tag=dry", "--yes")


def test_with_yes_all_that_match_are_cancelled_and_no_others(client: Client) -> None:
    runs, other = waiting_runs(client, "many"), waiting_runs(client, "other", 1)
    answer = client.json("run", "cancel", "--filter", "tag=many", "--filter", "status=PENDING", "--yes")
    assert (set(answer["cancelled"]), answer["refused"]) == (set(runs), [])
    for run_id in runs:
        client.wait_for_status(run_id, "CANCELLED")
    assert client.json("get", other[0])["status"] == "PENDING"
    assert client.json("cancel", "--filter", "tag=many", "--yes") == {"cancelled": [], "refused": []}
    client.json("cancel", other[0])


def test_without_a_terminal_it_needs_yes(client: Client) -> None:
    [run_id] = waiting_runs(client, "careful", 1)
    refused = client.run("cancel", "--filter", "tag=careful")
    assert refused.ended() == 1
    assert "1 run would be cancelled. Give --yes" in refused.errors
    assert client.json("get", run_id)["status"] == "PENDING"
    client.json("cancel", run_id)


@pytest.mark.parametrize(("answer", "code", "status"), [("n", 130, "PENDING"), ("y", 0, "CANCELLED")])
def test_on_a_terminal_it_asks(answer: str, code: int, status: str, client: Client, shared_up: Up) -> None:
    tag = f"asked-{answer}"
    [run_id] = waiting_runs(client, tag, 1)
    with terminal("pyoco-client", "cancel", "--filter", f"tag={tag}", PYOCO_SERVER=shared_up.url) as shown:
        shown.shows(run_id[:8])
        shown.shows("Cancel 1 run? [y/N]")
        shown.type(f"{answer}\n")
        assert shown.ended() == code
    client.wait_for_status(run_id, status)
    client.json("cancel", run_id)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--filter", "name=x"],
        ["--filter", "tag"],
        ["--filter", "tag="],
        ["--filter", "tag=a", "--filter", "tag=b"],
        ["--filter", "status=FAILED"],
        ["--filter", "tag=a", "0a1b2c3d"],
        ["--filter", "tag=a", "--wait"],
        ["--dry-run", "0a1b2c3d"],
        ["--yes", "0a1b2c3d"],
    ],
)
def test_a_filter_that_is_wrong_is_refused_with_an_example(arguments: list[str], programs: Programs) -> None:
    refused = programs.run("pyoco-client", "cancel", *arguments)
    assert refused.ended() == 1
    assert "ERR-PYOCO-0018" in refused.errors
    assert "--dry-run" in refused.errors


def test_an_answer_for_programs_is_json_on_a_terminal_too(client: Client, shared_up: Up) -> None:
    [run_id] = waiting_runs(client, "json", 1)
    arguments = ("cancel", "--filter", "tag=json", "--yes", "--output", "json")
    with terminal("pyoco-client", *arguments, PYOCO_SERVER=shared_up.url) as shown:
        assert shown.ended() == 0
    assert json.loads(shown.text)["cancelled"] == [run_id]
