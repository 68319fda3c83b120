"""`pyoco-client schedule` against a real `up`, and upstream's names for the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import Program, Programs, Up, wait_for

WORKFLOW = """\
flow: {graph: part, defaults: {number: 7}}
tasks: {part: {callable: "pyoco_server.flows.demo:_part"}}
"""
FAR = "2100-01-01T00:00:00Z"


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


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    file = tmp_path / "flow.yaml"
    file.write_text(WORKFLOW)
    return file


def test_a_schedule_is_added_listed_run_and_deleted(client: Client, workflow: Path) -> None:
    given = ("--workflow-file", workflow, "--flow-name", "beat", "--tag", "demo")
    made = client.json("schedule", "add", *given, "--interval-seconds", "0.5")
    schedule_id = made["schedule_id"]
    assert schedule_id in client.run("schedule", "list", "--output", "table").output
    wait_for(lambda: bool(client.json("schedule", "runs", schedule_id, "--limit", "1")))
    [run] = client.json("schedule", "runs", "--schedule-id", schedule_id, "--limit", "1", "--records")
    assert (run["schedule_id"], "task_records" in run) == (schedule_id, True)
    assert "beat" in client.run("schedule", "runs", schedule_id, "--output", "table").output
    assert client.json("schedule", "delete", schedule_id)["deleted"] is True
    assert client.json("schedule", "list") == []


def test_a_flow_that_workers_know_is_scheduled_with_parameters(client: Client) -> None:
    given = ("--flow-name", "hello", "--tag", "demo", "--param", "name=you", "--run-at", FAR)
    made = client.json("schedule", "add", *given)
    assert (made["flow_name"], made["workflow_yaml_sha256"]) == ("hello", None)
    assert client.json("schedule", "delete", made["schedule_id"])["deleted"] is True


def test_what_cannot_be_scheduled_says_what_to_write(client: Client, workflow: Path) -> None:
    nothing = client.run("schedule", "add", "--cron", "* * * * *")
    assert (nothing.ended(), "--flow-name" in nothing.errors) == (1, True)
    both = client.run("schedule", "add", "--workflow-file", workflow, "--param", "a=1", "--run-at", FAR)
    assert (both.ended(), "flow.defaults" in both.errors) == (1, True)


def test_upstreams_names_for_the_same(client: Client, workflow: Path) -> None:
    given = ("--workflow-file", workflow, "--flow-name", "x", "--tag", "demo", "--run-at", FAR)
    made = client.json("schedule-yaml", *given)
    assert client.json("schedules") == [made]
    assert client.json("schedule-runs", "--schedule-id", made["schedule_id"]) == []
    assert client.json("schedule-delete", "--schedule-id", made["schedule_id"])["deleted"] is True


def test_what_is_wrong_is_said(client: Client, workflow: Path) -> None:
    refused = client.run("schedule", "add", "--workflow-file", workflow, "--cron", "often")
    assert refused.ended() == 1
    assert "Write five fields" in refused.errors
    missing = client.run(
        "schedule", "add", "--workflow-file", workflow.with_name("none.yaml"), "--run-at", FAR
    )
    assert missing.ended() == 1
    assert "cannot be read" in missing.errors
    for arguments, sentence in (
        (("runs",), "Name one schedule."),
        (("delete", "a", "--schedule-id", "a"), "Name the schedule once."),
    ):
        unnamed = client.run("schedule", *arguments)
        assert unnamed.ended() == 1
        assert sentence in unnamed.errors


def test_a_schedule_is_shown_edited_paused_and_backfilled(client: Client) -> None:
    given = ("hello", "--tag", "demo", "--interval-seconds", "3600", "--start-at", "2026-01-01T00:00:00Z")
    more = ("--name", "Every hour", "--overlap", "skip", "--end-at", FAR, "--planned-at-param", "name")
    schedule_id = client.json("schedule", "add", *given, *more, "--paused")["schedule_id"]
    assert client.json("schedule", "show", schedule_id)["status"] == "PAUSED"
    assert client.json("schedule", "resume", schedule_id)["revision"] == 2
    changes = ("--cron", "0 3 * * *", "--overlap", "allow", "--clear", "end_at", "--param", "x=1")
    edited = client.json("schedule", "edit", schedule_id, *changes)
    assert (edited["cron"], edited["overlap"], edited["end_at"]) == ("0 3 * * *", "allow", None)
    stale = client.run("schedule", "edit", schedule_id, "--name", "x", "--revision", "1")
    assert stale.ended() != 0
    assert "has changed since you read it" in stale.errors
    assert "Say what to change" in client.run("schedule", "edit", schedule_id).errors
    client.json(
        "schedule", "edit", schedule_id, "--interval-seconds", "60", "--start-at", "2026-01-01T00:00:00Z"
    )
    range_ = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T00:01:00Z", "--max-running", "2")
    assert client.json("schedule", "backfill", schedule_id, *range_)["backfill"]["total"] == 2
    wait_for(lambda: client.json("schedule", "show", schedule_id)["backfill"]["started"] == 2)
    assert client.json("schedule", "stop-backfill", schedule_id)["backfill"]["state"] == "COMPLETED"
    client.json("schedule", "pause", schedule_id)
    table = client.run("schedule", "occurrences", schedule_id, "--output", "table")
    assert "started" in table.output
    shown = client.run("schedule", "show", schedule_id, "--output", "table").output
    for words in ("Every hour", "PAUSED", "every 1 min", "of 2, 2 started"):
        assert words in shown
    client.json("schedule", "delete", schedule_id)
