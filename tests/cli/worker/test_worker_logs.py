"""What a worker's process writes of runs that fail (REQ-0013), read from its own stdout."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest

from tests.cli.conftest import StartUp
from tests.cli.programs import Program, Programs, Up, wait_for
from tests.cli.test_process_logs import REQUIRED, lines_of, start_uvicorn
from tests.conftest import NatsServer

FLOWS = """
import pathlib, sys, time
from pyoco.core.models import Flow, Task

class OutOfPaper(Exception):
    pass

def breaks(ctx):
    raise OutOfPaper("tray 2 is empty\\n2026 CRITICAL forged \\x1b]0;title\\x07")

def waits(ctx):
    while not pathlib.Path("go").exists():
        time.sleep(0.05)
    return 1

def resolve(name):
    functions = {"breaks": breaks, "waits": waits}
    flow = Flow(name=name)
    flow >> Task(func=functions[name], name=name)
    return flow

print("loading \\x1b]0;title\\x07 flows")
"""
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACED = {"X-Correlation-Id": "order-17", "traceparent": TRACEPARENT}


@pytest.fixture
def flows(tmp_path: Path) -> str:
    (tmp_path / "flows_of_test.py").write_text(FLOWS)
    return "flows_of_test.py:resolve"


@pytest.fixture
def up(start_up: StartUp, flows: str) -> Up:
    return start_up("--flow-resolver", flows, "--worker-id", "w-1")


def submit(url: str, flow_name: str) -> str:
    answer = httpx.post(f"{url}/runs", json={"flow_name": flow_name}, headers=TRACED)
    run_id: str = answer.json()["run_id"]
    return run_id


def line_with(program: Program, err_id: str, **members: Any) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        wanted = {"err_id": err_id, **members}
        return [one for one in lines_of(program) if wanted.items() <= one.items()]

    line = wait_for(found, f"a line with {err_id}")[0]
    assert line.keys() >= REQUIRED
    assert line["service"] == "pyoco-server:worker"
    assert line["msg_id"] == err_id.replace("ERR", "MSG")
    assert line["worker_id"] == "w-1"
    return line


def test_a_failed_run_leaves_one_line_with_its_exception_and_where_it_ran(up: Up) -> None:
    run_id = submit(up.url, "breaks")
    line = line_with(up.program, "ERR-PYOCO-0007", run_id=run_id)
    assert (line["tag"], line["flow_name"], line["reason"]) == ("default", "breaks", "execution_error")
    assert line["exc_type"] == "OutOfPaper"
    assert line["exc_message"].startswith("tray 2 is empty")
    assert "in breaks" in line["exc_traceback"]
    assert line["exc_origin"]["func"] == "breaks"
    assert (line["correlation_id"], line["traceparent"]) == ("order-17", TRACEPARENT)
    unknown = submit(up.url, "unheard-of")
    line = line_with(up.program, "ERR-PYOCO-0006", run_id=unknown)
    assert (line["reason"], line["exc_type"], line["tag"]) == ("flow_not_found", "KeyError", "default")
    assert line["exc_origin"]["func"] == "resolve"
    failed = [one for one in lines_of(up.program) if one.get("run_id") == run_id and "err_id" in one]
    assert len(failed) == 1


def test_a_job_carries_its_callers_ids_in_headers_and_so_may_those_of_other_producers(up: Up) -> None:
    job = {"run_id": "6f1c1f0e-0000-4000-8000-000000000017", "flow_name": "breaks", "tag": "default"}
    bad = {"run_id": "6f1c1f0e-0000-4000-8000-000000000018", "flow_name": "a\x1bb", "tag": "default"}

    async def published() -> dict[str, str]:
        broker = await nats.connect(up.broker_url)
        heard = await broker.subscribe("pyoco.work.nobody")
        for one in (job, bad):
            payload = json.dumps(one | {"submitted_at": 1.0}).encode()
            await broker.jetstream().publish("pyoco.work.default", payload, headers=TRACED)
        url = f"{up.url}/runs"
        async with httpx.AsyncClient() as client:
            await client.post(url, json={"flow_name": "f", "tag": "nobody"}, headers=TRACED)
            message = await heard.next_msg(10)
            wrong = TRACED | {"traceparent": "00-zero"}
            await client.post(url, json={"flow_name": "f", "tag": "nobody"}, headers=wrong)
            assert "traceparent" not in ((await heard.next_msg(10)).headers or {})
        await broker.close()
        return message.headers or {}

    headers = asyncio.run(published())
    assert (headers["X-Correlation-Id"], headers["traceparent"]) == ("order-17", TRACEPARENT)
    line = line_with(up.program, "ERR-PYOCO-0007", run_id=job["run_id"])
    assert (line["correlation_id"], line["traceparent"]) == ("order-17", TRACEPARENT)
    invalid = line_with(up.program, "ERR-PYOCO-0012", run_id=bad["run_id"])
    assert (invalid["reason"], invalid["tag"], invalid["exc_type"]) == ("invalid_job", "default", "Invalid")
    assert "control characters" in invalid["exc_message"]


def test_a_broker_that_goes_away_is_told_with_the_run_it_concerns(
    programs: Programs, own_nats_server: NatsServer, flows: str, tmp_path: Path
) -> None:
    settings = {"PYOCO_NATS_URL": own_nats_server.url, "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.2"}
    settings |= {"PYOCO_BROKER_TIMEOUT_SEC": "1", "PYOCO_WORKER_LEASE_SEC": "60"}
    worker = programs.start("pyoco-worker", "--flow-resolver", flows, "--worker-id", "w-1", **settings)
    _, url = start_uvicorn(programs, own_nats_server.url)
    run_id = submit(url, "waits")
    wait_for(lambda: httpx.get(f"{url}/runs/{run_id}").json()["status"] == "RUNNING", "a run under way")
    own_nats_server.kill()
    line = line_with(worker, "ERR-PYOCO-0003", message="cannot connect to the broker")
    assert (line["worker_id"], line["msg_id"]) == ("w-1", "MSG-PYOCO-0003")
    # By the instant at which the broker went: its port is closed, or closes under the connect.
    assert line["exc_type"] in ("ConnectionRefusedError", "ConnectionResetError")
    line = line_with(worker, "ERR-PYOCO-0009", run_id=run_id)
    assert (line["tag"], line["level"], line["correlation_id"]) == ("default", "WARNING", "order-17")
    assert line["exc_type"]
    (tmp_path / "go").touch()
    line = line_with(worker, "ERR-PYOCO-0008", run_id=run_id)
    assert (line["tag"], line["correlation_id"]) == ("default", "order-17")
    assert line["exc_type"]
    assert line["reason"]
    own_nats_server.start()
    wait_for(lambda: _status(url, run_id) == "COMPLETED", "its end")


def _status(url: str, run_id: str) -> str:
    return str(httpx.get(f"{url}/runs/{run_id}").json().get("status"))


def test_a_text_log_shows_no_control_character_of_a_run(start_up: StartUp, flows: str) -> None:
    up = start_up("--flow-resolver", flows, PYOCO_LOG_FORMAT="text")
    run_id = submit(up.url, "breaks")
    wait_for(lambda: f"run_id={run_id}" in up.program.output, "its line")
    wait_for(lambda: "OutOfPaper: tray 2 is empty" in up.program.output, "its traceback")
    written = up.program.output + up.program.errors
    assert "forged" in written
    assert [line for line in written.splitlines() if line.startswith("2026 CRITICAL")] == []
    assert "\x1b" not in written
    assert "loading \\x1b]0;title\\x07 flows" in written
