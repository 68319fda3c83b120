"""What commands say while they wait for a run that is not executed: against a real `up`."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.client.test_client import Client
from tests.cli.programs import Programs, Up
from tests.cli.terminal import terminal

NO_WORKER = "No live worker serves the tag nobody. Start one, or cancel the run."


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def test_a_wait_without_a_worker_says_so_once_and_stdout_stays_json(client: Client) -> None:
    waiting = client.start("submit", "hello", "--tag", "nobody", "--tags", "said-once", "--wait")
    waiting.says(NO_WORKER)
    [run] = client.json("list", "--search", "said-once")
    # The next question is asked, and the answer is the same: it is not said again.
    result = client.run("result", run["run_id"], "--wait", "--timeout-sec", 3)
    assert (result.ended(), result.errors.count(NO_WORKER)) == (8, 1)
    client.json("cancel", run["run_id"])
    assert waiting.ended() == 3
    assert json.loads(waiting.output)["status"] == "CANCELLED"
    assert waiting.errors == f"{NO_WORKER}\n"


@pytest.mark.parametrize("command", [["watch", "--until-terminal"], ["logs", "-f"], ["result", "--wait"]])
def test_commands_that_follow_a_run_say_what_it_waits_for(client: Client, command: list[str]) -> None:
    run_id = client.json("submit", "hello", "--tag", "nobody")["run_id"]
    following = client.start(*command, run_id)
    following.says(NO_WORKER)
    assert NO_WORKER not in following.output
    client.json("cancel", run_id)
    following.ended()


def test_the_sentence_changes_when_a_worker_takes_the_run(
    client: Client, programs: Programs, shared_up: Up
) -> None:
    waiting = client.start("submit", "ticker", "--tag", "late", "--param", "seconds=30", "--wait")
    waiting.says("No live worker serves the tag late.")
    worker = programs.start(
        "pyoco-worker",
        *("--nats-url", shared_up.broker_url, "--tags", "late", "--worker-id", "w-late", "--demo"),
    )
    waiting.says("Worker w-late is executing it.")
    waiting.send(signal.SIGINT)
    assert waiting.ended() == 130
    worker.send(signal.SIGKILL)


def test_a_run_that_is_executed_at_once_says_nothing(client: Client) -> None:
    ended = client.run("submit", "hello", "--tag", "demo", "--wait")
    assert (ended.ended(), ended.errors) == (0, "")


def test_the_live_view_shows_what_the_run_waits_for(client: Client, shared_up: Up) -> None:
    run_id = client.json("submit", "hello", "--tag", "nobody")["run_id"]
    with terminal("pyoco-client", "--server", shared_up.url, "watch", run_id, "--until-terminal") as shown:
        shown.shows(NO_WORKER)
        client.json("cancel", run_id)
        assert shown.ended() == 3
    last = shown.text[shown.text.rindex("CANCELLED") :]
    assert NO_WORKER not in last
