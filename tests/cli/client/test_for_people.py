"""What people see on a terminal of 80 columns: sentences, tables that fit, links; and JSON for programs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.client.test_client import Client
from tests.cli.client.test_schedules import FAR
from tests.cli.conftest import StartUp
from tests.cli.programs import Programs, Up, wait_for
from tests.cli.terminal import on_a_terminal, terminal

COLUMNS = 80
CRON = ("--cron", "30 2 * * *", "--timezone", "Asia/Tokyo")


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def seen(up: Up, *arguments: object, columns: int = COLUMNS, **settings: str) -> str:
    return on_a_terminal(
        "pyoco-client", *arguments, columns=columns, rows=40, PYOCO_SERVER=up.url, **settings
    )


def test_a_submission_says_how_to_go_on(shared_up: Up, client: Client) -> None:
    shown = seen(shared_up, "run", "submit", "hello", "--tag", "demo")
    run_id = shown.split()[1]
    assert shown.splitlines() == [
        f"Run {run_id} of flow hello was submitted.",
        f"  Follow     pyoco-client run watch {run_id[:8]}",
        f"  Log        pyoco-client run logs -f {run_id[:8]}",
        f"  Dashboard  {shared_up.url}/#/runs/{run_id}",
    ]
    client.wait_for_status(run_id, "COMPLETED")
    given = on_a_terminal(
        "pyoco-client", "--server", shared_up.url, "run", "retry", run_id, "--from", "start"
    )
    assert f"runs {run_id[:8]} again" in given
    assert f"  Follow     pyoco-client --server {shared_up.url} run watch " in given


def test_a_run_is_shown_with_its_link_and_its_tasks(shared_up: Up, client: Client) -> None:
    run_id = client.submit("fails")
    client.wait_for_status(run_id, "FAILED")
    shown = seen(shared_up, "run", "get", run_id[:8], "--records")
    assert f"Dashboard  {shared_up.url}/#/runs/{run_id}" in shown
    assert "UTC" in shown
    assert "prepare  SUCCEEDED" in shown
    assert "explode  FAILED" in shown
    waiting = str(client.json("submit", "hello", "--tag", "unserved")["run_id"])
    assert seen(shared_up, "run", "tasks", waiting) == "The run has no tasks yet.\n"
    client.json("cancel", waiting)


@pytest.mark.parametrize(
    "command",
    ["run list", "run pages", "approval list", "schedule list", "worker list", "flow list", "dlq list"],
)
def test_no_table_is_wider_than_the_terminal(command: str, shared_up: Up, client: Client) -> None:
    client.wait_for_status(client.submit("fails"), "FAILED")
    client.submit("release")
    client.json(
        "schedule", "add", "hello", "--tag", "demo", "--cron", "30 2 * * *", "--timezone", "Asia/Tokyo"
    )
    wait_for(lambda: client.json("approval", "list")["items"], "the approval")
    wait_for(lambda: client.json("worker", "list"), "the worker")
    lines = seen(shared_up, *command.split()).splitlines()
    assert len(lines) > 1
    assert max(len(line.rstrip()) for line in lines if "--cursor" not in line) <= COLUMNS
    assert lines[0] == lines[0].upper()


def test_a_schedule_says_when_it_starts_runs(shared_up: Up, client: Client) -> None:
    made = seen(shared_up, "schedule", "add", "hello", "--tag", "demo", *CRON)
    assert "starts flow hello at 30 2 * * * (Asia/Tokyo)." in made
    schedule_id = made.split()[1]
    seen(shared_up, "schedule", "add", "hello", "--tag", "demo", "--interval-seconds", "5400")
    seen(shared_up, "schedule", "add", "hello", "--tag", "demo", "--run-at", FAR)
    listed = seen(shared_up, "schedule", "list", columns=120)
    assert f"{schedule_id[:8]}  hello  at 30 2 * * * (Asia/Tokyo)" in listed
    assert "every 90 min" in listed
    assert "once at 2100-01-01" in listed
    started = seen(shared_up, "schedule", "run", schedule_id[:8])
    assert f"of schedule {schedule_id[:8]} was submitted." in started
    wait_for(lambda: client.json("schedule", "runs", schedule_id), "the run of the schedule")
    assert "was deleted" in seen(shared_up, "schedule", "delete", schedule_id[:8])


def test_empty_lists_are_sentences(start_up: StartUp) -> None:
    up = start_up("--no-worker")
    for command, sentence in {
        "run list": "No runs yet. Submit one: pyoco-client run submit FLOW",
        "run list --status FAILED": "No run matches.",
        "run list --search x": "No run matches.",
        "approval list": "No task waits for an answer.",
        "schedule list": "No schedules. Create one: pyoco-client schedule add FLOW --cron …",
        "worker list": "No live workers. Those that have stopped: pyoco-client worker list --scope all",
        "flow list": "No flows: no live worker announces its flows, and there were no runs.",
        "dlq list": "No dead letters.",
        "wheel list": "No wheels.",
        "wheel history": "No wheel was uploaded or deleted.",
        "config list": "No profiles.",
    }.items():
        assert seen(up, *command.split()).startswith(sentence), command
    assert json.loads(seen(up, "run", "list", "--output", "json")) == []


def test_an_approval_is_answered_in_sentences(shared_up: Up, client: Client) -> None:
    run_id = client.submit("release")
    wait_for(lambda: run_id in str(client.json("approval", "list")["items"]), "the approval")
    assert "Deploy it?" in seen(shared_up, "approval", "list")
    answered = seen(shared_up, "approval", "approve", run_id[:8], "approve", "--comment", "tests are green")
    assert answered.startswith("Task approve was approved, and the run continues.")
    assert f"{shared_up.url}/#/runs/{run_id}" in answered
    rejected = client.submit("release")
    wait_for(lambda: rejected in str(client.json("approval", "list")["items"]), "the approval")
    assert "was rejected" in seen(shared_up, "approval", "reject", rejected, "approve")


def test_why_says_what_a_run_waits_for(shared_up: Up, client: Client) -> None:
    run_id = str(client.json("run", "submit", "hello", "--tag", "unserved")["run_id"])
    shown = seen(shared_up, "why", run_id[:8])
    assert shown.startswith("No live worker serves the tag unserved")
    assert shared_up.url in shown
    assert client.json("why", run_id)["reasons"][0]["reason"] == "NO_WORKER"
    client.json("cancel", run_id)


def test_open_prints_the_link_and_starts_the_browser(shared_up: Up, client: Client, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    run_id = client.submit("hello")
    link = f"{shared_up.url}/#/runs/{run_id}"
    assert client.run("open", run_id[:8]).output == f"{link}\n"
    assert seen(shared_up, "open", run_id, "--print", BROWSER=str(browser)) == f"{link}\n"
    assert not opened.exists()
    assert seen(shared_up, "open", run_id, BROWSER=str(browser)).startswith(link)
    assert wait_for(lambda: opened.exists() and opened.read_text(), "the browser") == f"{link}\n"
    assert client.run("open").output == f"{shared_up.url}/#/runs\n"


def test_what_workers_do_is_told_in_sentences(shared_up: Up, client: Client) -> None:
    [worker] = wait_for(lambda: client.json("worker", "list"), "a worker")
    name = worker["worker_id"]
    assert seen(shared_up, "worker", "drain", name, "--wait") == f"Worker {name} has no run left.\n"
    assert "IDLE, draining" in seen(shared_up, "worker", "list")
    assert seen(shared_up, "worker", "resume", name) == f"Worker {name} takes runs again.\n"
    assert "hidden from lists" in seen(shared_up, "worker", "hide", name)
    assert "in lists again" in seen(shared_up, "worker", "hide", name, "--no-hidden")


def test_a_dead_letter_is_shown_and_redriven(shared_up: Up, client: Client) -> None:
    client.wait_for_status(client.submit("fails"), "FAILED")
    letters = wait_for(lambda: client.json("dlq", "list")["items"], "the letter")
    assert "execution_error" in seen(shared_up, "dlq", "get", letters[0]["id"])
    assert "  Follow     pyoco-client run watch " in seen(shared_up, "dlq", "redrive", letters[0]["id"])
    told = seen(shared_up, "dlq", "dismiss", letters[0]["id"], "--note", "known")
    assert told == f"Dead letter {letters[0]['id']} was dismissed.\n"
    assert letters[0]["id"] not in [
        one["id"] for one in client.json("dlq", "list", "--kind", "execution")["items"]
    ]
    assert letters[0]["id"] in [one["id"] for one in client.json("dlq", "list", "--dismissed")["items"]]


def test_a_list_is_searched_and_limited_in_time(client: Client) -> None:
    run_id = client.submit("fails", "--tags", "sought-17")
    client.wait_for_status(run_id, "FAILED")
    assert [run["run_id"] for run in client.json("list", "--search", "sought-17", "--since", "1h")] == [
        run_id
    ]
    assert client.json("list", "--search", "sought-17", "--since", "4000000000") == []
    page = client.json("run", "list", "--search", "fails", "--cursor", "", "--limit", 1)
    assert page.keys() == {"items", "next_cursor"}
    wrong = client.run("list", "--since", "yesterday")
    assert (wrong.ended(), "--since is 30s, 10m" in wrong.errors) == (1, True)


def test_a_watched_list_has_a_line_for_each_change(client: Client) -> None:
    watching = client.start("list", "--watch", "--tag", "watched")
    first = str(client.json("submit", "hello", "--tag", "watched")["run_id"])
    watching.says(first)
    client.json("cancel", first)
    watching.says('"CANCELLED"')
    watching.send(signal.SIGINT)
    assert watching.ended() == 130
    lines = [json.loads(line) for line in watching.output.splitlines()]
    assert {line["run_id"] for line in lines} == {first}
    assert (lines[0]["status"], lines[-1]["status"]) == ("PENDING", "CANCELLED")


def test_a_watched_list_on_a_terminal_changes_in_place(shared_up: Up, client: Client) -> None:
    with terminal(
        "pyoco-client", "list", "--watch", "--search", "seen-17", PYOCO_SERVER=shared_up.url
    ) as shown:
        shown.shows("No run matches.")
        run_id = str(client.json("submit", "hello", "--tag", "demo", "--tags", "seen-17")["run_id"])
        shown.shows(run_id[:8])
        shown.shows("COMPLETED")
        shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == 130
        assert shown.said.rstrip().endswith("\x1b[?25h")  # the cursor is visible again


def test_a_watched_list_outlives_the_gateway(start_up: StartUp, programs: Programs) -> None:
    up = start_up("--no-worker")
    with terminal("pyoco-client", "list", "--watch", PYOCO_SERVER=up.url) as shown:
        shown.shows("No run matches.")
        up.program.send(signal.SIGINT)
        shown.shows("The gateway does not answer; trying again")
        assert shown.process.poll() is None
