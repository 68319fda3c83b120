"""`pyoco-server up` with authentication on: the broker asks too, and our own commands know what to say."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import httpx

from pyoco_server.broker import kept_credentials
from tests.cli.conftest import StartUp
from tests.cli.programs import Programs, wait_for


def test_a_run_from_the_first_key_to_its_end(programs: Programs, start_up: StartUp) -> None:
    up = start_up(PYOCO_HTTP_AUTH_MODE="api_key")
    hint = f"pyoco-server-admin api-key create --data-dir {up.data_dir} --tenant demo --scope admin"
    assert hint in up.program.errors
    assert httpx.get(f"{up.url}/runs").status_code == 401
    made = programs.run(
        "pyoco-server-admin", "api-key", "create", "--tenant", "demo", "--data-dir", up.data_dir
    )
    assert made.ended() == 0, made.errors
    key = json.loads(made.output)["api_key"]
    wait_for(lambda: httpx.get(f"{up.url}/runs", headers={"X-API-Key": key}).status_code == 200)
    ran = programs.run(
        "pyoco-client", "--server", up.url, "--api-key", key,
        "submit", "--flow-name", "hello", "--tag", "demo", "--wait",
    )  # fmt: skip
    assert ran.ended() == 0, ran.errors
    run = json.loads(ran.output)
    assert (run["status"], run["tenant_id"]) == ("COMPLETED", "demo")


def test_nobody_sees_the_password_and_a_worker_by_hand_finds_it(
    programs: Programs, start_up: StartUp
) -> None:
    data_dir = programs.folder / ".pyoco" / "data"  # where commands look without being told
    up = start_up("--no-worker", data_dir=data_dir, PYOCO_HTTP_AUTH_MODE="api_key")
    credentials = kept_credentials(data_dir)
    assert credentials is not None
    assert stat.S_IMODE((data_dir / "broker.credentials.json").stat().st_mode) == 0o600
    worker = programs.start("pyoco-worker", "--demo", "--worker-id", "by-hand")
    made = programs.run("pyoco-server-admin", "api-key", "create", "--tenant", "demo")
    key = json.loads(made.output)["api_key"]
    headers = {"X-API-Key": key}
    wait_for(lambda: httpx.get(f"{up.url}/runs", headers=headers).status_code == 200)
    wanted = {"flow_name": "hello", "tag": "demo"}
    run_id = httpx.post(f"{up.url}/runs", json=wanted, headers=headers).json()["run_id"]
    run = httpx.get(f"{up.url}/runs/{run_id}?wait=20", headers=headers, timeout=30).json()
    assert (run["status"], run["worker_id"]) == ("COMPLETED", "by-hand")
    commands = [_command_of(pid) for pid in (up.program.pid, up.broker_pid, worker.pid)]
    said = "".join(
        [*commands, up.program.output, up.program.errors, worker.output, worker.errors, made.errors]
    )
    assert credentials.password not in said
    assert key.partition(".")[2] not in said


def test_the_worker_of_up_is_not_told_the_password_where_others_can_see(start_up: StartUp) -> None:
    up = start_up(PYOCO_HTTP_AUTH_MODE="api_key")
    credentials = kept_credentials(up.data_dir)
    worker = wait_for(lambda: up.worker_pid, "a worker")
    assert credentials is not None
    assert worker is not None
    assert credentials.password not in _command_of(worker)


def test_somebody_elses_program_does_not_get_into_the_broker(programs: Programs, start_up: StartUp) -> None:
    up = start_up(PYOCO_HTTP_AUTH_MODE="api_key")
    refused = programs.run("pyoco-server-admin", "resources", "--nats-url", up.broker_url)
    assert refused.ended() == 1
    assert "refuses our credentials; set PYOCO_NATS_USER" in refused.errors


def test_tokens_are_refused_in_a_sentence(programs: Programs) -> None:
    refused = programs.run(
        "pyoco-server", "--port", 0, "--data-dir", programs.folder / "d", PYOCO_HTTP_AUTH_MODE="jwt"
    )
    assert refused.ended() == 1
    assert "PYOCO_HTTP_AUTH_MODE names jwt" in refused.errors
    assert "Traceback" not in refused.errors


def _command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
