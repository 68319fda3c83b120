"""Ids as people type them, against a real `up`: whole, short, by position, as an option."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from pyoco_server.cli.client.ids import is_whole, short_id
from tests.cli.client.test_client import UNKNOWN, Client
from tests.cli.client.test_schedules import WORKFLOW
from tests.cli.programs import Programs, Up, wait_for

RUNS_MAX = 5_000


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def test_the_beginning_of_an_id_is_enough_for_every_command_of_a_run(client: Client) -> None:
    run_id = client.submit("fails")
    client.wait_for_status(run_id, "FAILED")
    short = run_id[:8]
    assert client.json("get", short)["run_id"] == run_id
    assert client.json("get", "--run-id", short)["run_id"] == run_id
    assert client.json("tasks", short)["tasks"] == client.json("tasks", run_id)["tasks"]
    assert client.json("cancel", short)["status"] == "FAILED"
    assert client.run("watch", short, "--until-terminal").ended() == 2
    assert client.run("result", short).ended() == 2
    assert client.json("retry", short)["retry_of"] == run_id
    assert "This demo fails on purpose" in client.run("logs", short).output
    unknown = client.run("get", "zzzzzz")
    assert (unknown.ended(), "There is no run zzzzzz" in unknown.errors) == (1, True)


def test_an_answer_takes_a_short_id_and_the_task_by_position(client: Client) -> None:
    run_id = client.submit("release")
    (waiting,) = wait_for(
        lambda: [one for one in client.json("approvals")["items"] if one["run_id"] == run_id], "the question"
    )
    assert client.json("reject", run_id[:8], waiting["task"], "--comment", "no")["accepted"] is True
    client.wait_for_status(run_id, "FAILED")
    for wrong in ((), (run_id,), (run_id, waiting["task"], "--task", "x")):
        refused = client.run("approve", *wrong)
        assert (refused.ended(), "ERR-PYOCO-0018" in refused.errors) == (1, True)


def test_a_short_id_of_several_runs_lists_them(client: Client, shared_up: Up) -> None:
    seen: dict[str, str] = {}
    with httpx.Client(base_url=shared_up.url) as http:
        for _ in range(RUNS_MAX):
            posted = http.post("/runs", json={"flow_name": "many", "tag": "nobody"}).json()["run_id"]
            if (first := seen.setdefault(posted[:4], posted)) != posted:
                break
    refused = client.run("get", posted[:4])
    assert refused.ended() == 1
    assert f"Runs whose id begins with {posted[:4]!r}:" in refused.errors
    assert f"  {first}  PENDING  many" in refused.errors
    assert f"  {posted}  PENDING  many" in refused.errors
    assert refused.output == ""


def test_a_schedule_has_a_short_id_too(client: Client) -> None:
    made = client.json("schedule", "add", "hello", "--tag", "demo", "--run-at", "2100-01-01T00:00:00Z")
    assert client.json("schedule", "runs", made["schedule_id"][:6]) == []
    assert client.json("schedule", "delete", made["schedule_id"][:6])["deleted"] is True


def test_flows_files_and_workers_are_named_by_position(client: Client, programs: Programs) -> None:
    assert client.json("submit", "hello", "--tag", "demo", "--wait")["flow_name"] == "hello"
    (programs.folder / "flow.yaml").write_text(WORKFLOW)
    assert client.json("submit-yaml", "flow.yaml", "--tag", "demo", "--wait")["status"] == "COMPLETED"
    (worker,) = wait_for(lambda: client.json("workers"), "a worker")
    assert client.json("worker-drain", worker["worker_id"], "--wait")["drained"] is True
    assert client.json("worker-resume", worker["worker_id"])["draining"] is False
    assert client.json("worker-hide", worker["worker_id"])["hidden"] is True
    assert client.json("worker-hide", worker["worker_id"], "--no-hidden")["hidden"] is False


def test_a_whole_id_needs_no_extra_request(programs: Programs) -> None:
    with recording() as (url, asked):
        for given in (UNKNOWN, UNKNOWN[:8]):
            programs.run("pyoco-client", "--server", url, "get", given)
    assert asked == [f"/runs/{UNKNOWN}", f"/runs?id_prefix={UNKNOWN[:8]}&limit=10"]


@pytest.mark.parametrize(
    "command",
    [
        ("submit", "hello"),
        ("submit-yaml", "flow.yaml"),
        ("result", UNKNOWN),
        ("retry", UNKNOWN),
        ("worker-drain", "w1"),
    ],
)
def test_a_limit_without_a_wait_is_refused(programs: Programs, command: tuple[str, ...]) -> None:
    refused = programs.run("pyoco-client", *command, "--timeout-sec", 5)
    assert refused.ended() == 1
    assert "--timeout-sec is the limit of --wait: give both." in refused.errors
    assert "--wait" in refused.errors.splitlines()[-1], "the hint"


@pytest.mark.parametrize(
    "command",
    [
        ("submit", "a", "--flow-name", "b"),
        ("submit-yaml", "a", "--workflow-file", "b"),
        ("submit-yaml",),
        ("schedule", "add", "a", "--flow-name", "b", "--run-at", "2100-01-01T00:00:00Z"),
        ("worker-drain",),
        ("worker-hide", "a", "--worker-id", "b"),
        ("worker-resume",),
        ("wheel-delete",),
        ("wheel-download", "a", "--name", "b"),
        ("wheel-upload", "a", "--wheel-file", "b"),
    ],
)
def test_what_is_named_twice_or_not_at_all_is_refused(programs: Programs, command: tuple[str, ...]) -> None:
    refused = programs.run("pyoco-client", *command)
    assert refused.ended() == 1
    assert "ERR-PYOCO-0018" in refused.errors
    assert "try:   pyoco-client " in refused.errors


def test_a_name_that_is_no_uuid_stays_whole() -> None:
    assert short_id(UNKNOWN) == UNKNOWN[:8]
    assert short_id("nightly-import-of-today") == "nightly-import-of-today"
    assert not is_whole(UNKNOWN[:35])


@contextmanager
def recording() -> Iterator[tuple[str, list[str]]]:
    """A server that has nothing, and remembers what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
