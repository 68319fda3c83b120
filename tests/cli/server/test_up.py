"""`pyoco-server up`: one command that starts everything, says what to do next, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import StartUp
from tests.cli.programs import Programs, Up, children_of, is_running, wait_for
from tests.conftest import NatsServer, free_port

FLOWS = """
from pyoco import Flow, task

def resolve(name):
    @task
    def answer() -> int:
        return 42
    return Flow(name) >> answer
"""


def gone(pids: list[int]) -> bool:
    return not any(is_running(pid) for pid in pids)


def test_it_says_where_things_are_and_the_command_it_suggests_works(
    start_up: StartUp, programs: Programs
) -> None:
    up = start_up()
    said = up.program.errors
    assert up.url in said
    assert f"{up.url}/" in said
    assert up.broker_url in said
    assert "durability always" in said
    suggested = next(line for line in said.splitlines() if line.startswith("  Try"))
    command = shlex.split(suggested.removeprefix("  Try"))
    assert Path(command[0]).name == "pyoco-client"
    assert command[-6:] == ["submit", "hello", "--tag", "demo", "--param", "name=you"]
    done = programs.run("pyoco-client", *command[1:], "--wait")
    assert done.ended() == 0, done.errors
    assert '"status": "COMPLETED"' in done.output


def test_ready_names_the_embedded_broker(shared_up: Up) -> None:
    state = httpx.get(f"{shared_up.url}/ready").json()
    assert state["ready"] is True
    assert state["broker"] == {"url": shared_up.broker_url, "embedded": True, "durability": "always"}


def test_the_read_model_lives_in_the_data_folder(shared_up: Up) -> None:
    assert (shared_up.data_dir / "read_model.sqlite").exists()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_of_it_in_order(start_up: StartUp, sig: signal.Signals) -> None:
    up = start_up()
    pids = up.pids
    up.program.send(sig)
    assert up.program.ended() == 0, up.program.errors
    assert gone(pids)
    assert not (up.data_dir / "broker.json").exists()


def test_a_run_under_way_does_not_keep_it_from_stopping(start_up: StartUp, programs: Programs) -> None:
    up = start_up(PYOCO_DRAIN_TIMEOUT_SEC="0.1")
    pids = up.pids
    run_ticker(up)
    up.program.send(signal.SIGINT)
    assert up.program.ended() == 0
    assert gone(pids)


def test_a_second_signal_ends_it_at_once(start_up: StartUp) -> None:
    up = start_up(PYOCO_DRAIN_TIMEOUT_SEC="600")
    pids = up.pids
    run_ticker(up)
    up.program.send(signal.SIGINT)
    up.program.says("no more jobs are taken")
    up.program.send(signal.SIGINT)
    assert up.program.ended() == 130
    wait_for(lambda: gone(pids), "the end of its children")


def test_killing_it_leaves_neither_broker_nor_worker(start_up: StartUp) -> None:
    up = start_up()
    pids = up.pids
    up.program.send(signal.SIGKILL)
    up.program.ended()
    wait_for(lambda: gone(pids), "the end of its children")


def test_what_ran_before_a_restart_is_still_there(start_up: StartUp, programs: Programs) -> None:
    up = start_up()
    run_id = httpx.post(f"{up.url}/runs", json={"flow_name": "hello", "tag": "demo"}).json()["run_id"]
    wait_for(lambda: status(up, run_id) == "COMPLETED", "the run")
    up.program.send(signal.SIGKILL)
    up.program.ended()
    again = start_up()
    assert status(again, run_id) == "COMPLETED"
    assert [run["run_id"] for run in httpx.get(f"{again.url}/runs").json()] == [run_id]


def test_a_second_one_on_the_same_data_folder_is_refused_with_the_owners_pid(
    shared_up: Up, programs: Programs
) -> None:
    second = programs.run("pyoco-server", "up", "--port", free_port(), "--data-dir", shared_up.data_dir)
    assert second.ended() == 1
    assert f"pid {shared_up.program.pid}" in second.errors
    assert is_running(shared_up.broker_pid)


def test_a_busy_port_is_told_before_anything_is_started(programs: Programs, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = programs.run("pyoco-server", "up", "--port", port, "--data-dir", tmp_path / "data")
    assert refused.ended() == 1
    assert f"Port {port}" in refused.errors
    assert "--port" in refused.errors
    assert not (tmp_path / "data").exists()


def test_with_a_broker_of_its_own_it_is_the_gateway_alone(
    programs: Programs, own_nats_server: NatsServer, tmp_path: Path
) -> None:
    port = free_port()
    up = programs.start("pyoco-server", "--port", port, "--nats-url", own_nats_server.url)
    up.says("pyoco-server is ready")
    assert children_of(up.pid) == {}
    broker = httpx.get(f"http://127.0.0.1:{port}/ready").json()["broker"]
    assert broker == {"url": own_nats_server.url, "embedded": False, "durability": None}
    assert f"pyoco-worker --nats-url {own_nats_server.url}" in up.errors
    assert not (tmp_path / ".pyoco").exists()
    up.send(signal.SIGTERM)
    assert up.ended() == 0


def test_nats_bootstrap_on_a_port_that_is_taken_ends_with_1(
    programs: Programs, own_nats_server: NatsServer, tmp_path: Path
) -> None:
    arguments = ["--port", free_port(), "--data-dir", tmp_path / "data", "--nats-url", own_nats_server.url]
    refused = programs.run("pyoco-server", "up", "--with-nats-bootstrap", *arguments)
    assert refused.ended() == 1
    assert f"Port {own_nats_server.port} is taken by nats-server" in refused.errors


def test_it_starts_before_its_broker_and_says_what_it_waits_for(
    programs: Programs, own_nats_server: NatsServer
) -> None:
    own_nats_server.kill()
    up = programs.start("pyoco-server", "--port", free_port(), "--nats-url", own_nats_server.url)
    up.says("not ready yet: no broker answers")
    own_nats_server.start()
    up.says("pyoco-server is ready")


def test_a_worker_that_dies_is_started_again(start_up: StartUp) -> None:
    up = start_up()
    first = up.pids[2]
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: up.worker_pid not in (None, first), "another worker")
    run_id = httpx.post(f"{up.url}/runs", json={"flow_name": "hello", "tag": "demo"}).json()["run_id"]
    wait_for(lambda: status(up, run_id) == "COMPLETED", "the run")


def test_with_a_resolver_it_serves_default_and_what_tags_says(start_up: StartUp, programs: Programs) -> None:
    (programs.folder / "my_flows.py").write_text(FLOWS)
    up = start_up("--flow-resolver", "my_flows.py:resolve", "--tags", "gpu,cpu")
    assert "flows of my_flows.py:resolve on tags default, gpu, cpu" in up.program.errors
    for tag in ("default", "gpu", "cpu"):
        run_id = httpx.post(f"{up.url}/runs", json={"flow_name": "any", "tag": tag}).json()["run_id"]
        wait_for(lambda run_id=run_id: status(up, run_id) == "COMPLETED", "the run")  # type: ignore[misc]


def test_a_resolver_that_cannot_be_had_ends_it_with_an_example(programs: Programs, tmp_path: Path) -> None:
    arguments = ["--port", free_port(), "--data-dir", tmp_path / "data", "--flow-resolver", "nowhere:resolve"]
    refused = programs.run("pyoco-server", *arguments)
    assert refused.ended() == 1
    assert "There is no module 'nowhere'" in refused.errors
    assert "ERR-PYOCO-0018" in refused.errors
    assert "my_flows.py:resolve" in refused.errors


def test_without_a_worker_it_says_how_to_start_one_and_that_one_finds_the_broker(
    start_up: StartUp, programs: Programs
) -> None:
    up = start_up("--no-worker")
    assert up.worker_pid is None
    assert "pyoco-worker" in up.program.errors
    run_id = httpx.post(f"{up.url}/runs", json={"flow_name": "hello", "tag": "demo"}).json()["run_id"]
    worker = programs.run("pyoco-worker", "--demo", "--run-once", "--data-dir", up.data_dir)
    assert worker.ended() == 0, worker.errors
    assert run_id in worker.output
    assert status(up, run_id) == "COMPLETED"


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7", "[2001:db8::7]"])
def test_an_address_beyond_loopback_is_refused_while_there_is_no_authentication(
    programs: Programs, tmp_path: Path, host: str
) -> None:
    arguments = ["--host", host, "--port", free_port(), "--data-dir", tmp_path / "data"]
    refused = programs.run("pyoco-server", "up", *arguments)
    assert refused.ended() == 1
    assert "PYOCO_HTTP_AUTH_MODE" in refused.errors
    assert "--allow-unauthenticated" in refused.errors
    assert not (tmp_path / "data").exists()


def test_stdout_has_nothing_but_log_lines_and_the_words_for_people_are_on_stderr(start_up: StartUp) -> None:
    up = start_up()
    up.program.send(signal.SIGTERM)
    assert up.program.ended() == 0
    lines = up.program.output.splitlines()
    assert lines
    assert [line for line in lines if not isinstance(json.loads(line), dict)] == []
    assert "pyoco-server is ready" in up.program.errors
    assert "stopping" in up.program.errors


@pytest.mark.parametrize(
    "arguments", [["--port", "many"], ["down"], ["--durability", "sometimes"], ["--host", "not a host"]]
)
def test_wrong_arguments_end_with_1_and_say_what_to_type(programs: Programs, arguments: list[str]) -> None:
    refused = programs.run("pyoco-server", *arguments)
    assert refused.ended() == 1
    assert "error: " in refused.errors
    assert "Traceback" not in refused.errors


def test_help_describes_up_and_its_options(programs: Programs) -> None:
    assert "up" in programs.run("pyoco-server", "--help").output
    said = programs.run("pyoco-server", "up", "--help").output
    flags = ["--host", "--port", "--log-level", "--nats-url", "--dashboard-lang", "--with-nats-bootstrap"]
    flags += ["--with-worker", "--no-worker", "--worker-tags", "--tags", "--flow-resolver", "--data-dir"]
    flags += ["--durability", "--concurrency", "--worker-id", "--allow-unauthenticated"]
    assert [flag for flag in flags if flag not in said] == []


def status(up: Up, run_id: str) -> str:
    return str(httpx.get(f"{up.url}/runs/{run_id}").json()["status"])


def run_ticker(up: Up) -> None:
    """A run that goes on for a minute, and is under way when this returns."""
    run_id = httpx.post(f"{up.url}/runs", json={"flow_name": "ticker", "tag": "demo"}).json()["run_id"]
    wait_for(lambda: status(up, run_id) == "RUNNING", "the ticker")
