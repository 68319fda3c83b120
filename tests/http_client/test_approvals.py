"""What waits, and answers to it, over `PyocoHttpClient`; and the commands that stand on it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from pyoco_server.cli.client.main import app
from pyoco_server.http_client import PyocoHttpClient
from tests.http_client.conftest import Stack

DEADLINE_SEC = 30.0


def waiting(client: PyocoHttpClient, version: str = "1.0") -> str:
    run_id: str = client.submit_run("release", {"version": version}, tag="demo")["run_id"]
    until(lambda: any(item["run_id"] == run_id for item in client.list_approvals(limit=200)["items"]))
    return run_id


def until(look: Callable[[], Any]) -> Any:
    give_up_at = time.monotonic() + DEADLINE_SEC
    while not (found := look()):
        assert time.monotonic() < give_up_at, "it did not come true in time"
        time.sleep(0.01)
    return found


def typed(stack: Stack, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["--server", stack.url, *arguments])


def test_what_waits_is_listed_with_its_prompt(client: PyocoHttpClient) -> None:
    run_id = waiting(client, "3.1")
    [item] = [item for item in client.list_approvals()["items"] if item["run_id"] == run_id]
    assert (item["task"], item["wait_key"], item["flow_name"]) == ("approve", "approve", "release")
    assert item["prompt"] == {"question": "Deploy it?", "version": "3.1"}
    assert client.list_approvals(limit=1)["items"]
    client.cancel_run(run_id)
    assert all(item["run_id"] != run_id for item in client.list_approvals(limit=200)["items"])


def test_an_answer_goes_on_with_the_payload_and_counts_once(client: PyocoHttpClient) -> None:
    run_id = waiting(client)
    accepted = client.resume_task(run_id, "approve", payload=[1, 2], idempotency_key="once")
    assert client.resume_task(run_id, "approve", payload=[1, 2], idempotency_key="once") is not None
    assert accepted
    ended = client.wait_run(run_id, 30)
    assert ended["status"] == "COMPLETED"
    records = client.get_run_with_records(run_id)["task_records"]
    assert records["approve"]["output"] == [1, 2]
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.resume_task(run_id, "approve")
    assert refused.value.response.status_code == 409


def test_an_answer_with_another_key_is_refused_and_changes_nothing(client: PyocoHttpClient) -> None:
    run_id = waiting(client)
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.resume_task(run_id, "approve", wait_key="another")
    assert refused.value.response.json()["error"]["details"]["reason"] == "RESUME_KEY"
    client.resume_task(run_id, "approve", decision="reject", comment="no")
    ended = client.wait_run(run_id, 30)
    assert (ended["status"], ended["error"]) == ("FAILED", "no")


def test_the_commands_list_approve_and_reject(client: PyocoHttpClient, stack: Stack) -> None:
    yes, no = waiting(client), waiting(client)
    listed = json.loads(typed(stack, "approvals", "--limit", "200").stdout)["items"]
    assert {yes, no} <= {item["run_id"] for item in listed}
    table = typed(stack, "approvals", "--output", "table").stdout
    assert "Deploy it?" in table
    approved = typed(stack, "approve", "--run-id", yes, "--task", "approve", "--payload", '{"by": "ann"}')
    assert approved.exit_code == 0, approved.output
    rejected = typed(stack, "reject", "--run-id", no, "--task", "approve", "--comment", "not today")
    assert rejected.exit_code == 0, rejected.output
    assert client.wait_run(yes, 30)["status"] == "COMPLETED"
    assert client.wait_run(no, 30)["error"] == "not today"


def test_a_payload_that_does_not_match_the_schema_is_refused_with_its_field(
    client: PyocoHttpClient, stack: Stack
) -> None:
    schema = {"type": "object", "properties": {"percent": {"type": "integer", "maximum": 100}}}
    client.put_graph("typed", [{"id": "ok", "type": "wait", "prompt": {"answer_schema": schema}}])
    execution = client.create_execution("typed")
    execution.start()
    run_id = execution.id
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.resume_task(run_id, "ok", payload={"percent": 500})
    assert refused.value.response.status_code == 422
    wrong = typed(stack, "approve", "--run-id", run_id, "--task", "ok", "--payload", '{"percent": 500}')
    assert wrong.exit_code != 0
    assert "payload.percent must be at most 100" in str(wrong.exception)
    right = typed(stack, "approve", "--run-id", run_id, "--task", "ok", "--payload", '{"percent": 5}')
    assert right.exit_code == 0, right.output


def test_a_payload_that_is_no_json_is_refused_before_anything_is_sent() -> None:
    refused = CliRunner().invoke(
        app, ["--server", "http://127.0.0.1:1", "approve", "--run-id", "r", "--task", "t", "--payload", "yes"]
    )
    assert "--payload is not JSON" in str(refused.exception)
