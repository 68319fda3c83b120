"""`pyoco-worker` as a process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig, as_written, default_of, field_names, variable_of
from pyoco_server.nats_client import PyocoNatsClient
from tests.cli.programs import Programs, clean_environment
from tests.cli.terminal import on_a_terminal
from tests.conftest import NatsServer, free_port, until


@pytest.fixture
def programs(tmp_path: Path, config: NatsBackendConfig) -> Programs:
    changed = {name for name in field_names() if getattr(config, name) != default_of(name)}
    settings = {variable_of(name): as_written(getattr(config, name)) for name in changed}
    return Programs(tmp_path, clean_environment(**settings))


async def test_run_once_handles_one_job_and_names_its_run(
    programs: Programs, config: NatsBackendConfig
) -> None:
    async with await PyocoNatsClient.connect(config) as client:
        first, second = [await client.submit_run("hello", tag="demo") for _ in range(2)]
        worker = programs.run("pyoco-worker", "--demo", "--run-once", "--log-level", "WARNING")
        assert worker.ended() == 0, worker.errors
        assert worker.output.splitlines()[-1] == first
        assert (await client.get_run(first))["status"] == "COMPLETED"
        assert (await client.get_run(second))["status"] == "PENDING"


@pytest.mark.parametrize(("form", "is_text"), [("", True), ("text", True), ("json", False)])
def test_the_log_is_text_on_a_terminal_unless_a_setting_says_otherwise(
    programs: Programs, form: str, is_text: bool
) -> None:
    settings = {name: value for name, value in programs.environment.items() if name.startswith("PYOCO_")}
    settings |= {"PYOCO_LOG_FORMAT": form} if form else {}
    command = ("pyoco-worker", "--demo", "--run-once", "--poll-timeout", 0.1)
    shown = on_a_terminal(*command, columns=120, rows=40, **settings)
    assert ("INFO" in shown, shown.startswith("{")) == (True, not is_text), shown
    piped = programs.run(*command)
    assert piped.output.startswith("{")


def test_run_once_without_a_job_ends_with_0(programs: Programs) -> None:
    worker = programs.run(
        "pyoco-worker", "--demo", "--run-once", "--poll-timeout", 0.1, "--log-level", "ERROR"
    )
    assert (worker.ended(), worker.output) == (0, "")


async def test_tags_are_joined_by_commas_and_repeatable(
    programs: Programs, config: NatsBackendConfig
) -> None:
    worker = programs.start("pyoco-worker", "--demo", "--tags", "a,b", "--tags", "c", "--concurrency", 3)
    try:
        async with await PyocoNatsClient.connect(config) as client:
            runs = [await client.submit_run("hello", tag=tag) for tag in ("a", "b", "c")]
            for run_id in runs:
                await until(lambda run_id=run_id: _completed(client, run_id))  # type: ignore[misc]
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0, worker.errors
    finally:
        programs.end_all()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_lets_it_finish_what_it_runs(
    programs: Programs, config: NatsBackendConfig, sig: signal.Signals
) -> None:
    worker = programs.start("pyoco-worker", "--demo")
    try:
        async with await PyocoNatsClient.connect(config) as client:
            run_id = await client.submit_run("ticker", {"seconds": 1}, tag="demo")
            await until(lambda: _has_status(client, run_id, "RUNNING"))
            worker.send(sig)
            assert worker.ended() == 0, worker.errors
            assert await _completed(client, run_id)
    finally:
        programs.end_all()


async def test_a_second_signal_ends_it_at_once(programs: Programs, config: NatsBackendConfig) -> None:
    worker = programs.start("pyoco-worker", "--demo")
    try:
        async with await PyocoNatsClient.connect(config) as client:
            run_id = await client.submit_run("ticker", tag="demo")
            await until(lambda: _has_status(client, run_id, "RUNNING"))
            worker.send(signal.SIGTERM)
            worker.says("no more jobs are taken")
            worker.send(signal.SIGTERM)
            assert worker.ended() == 130
    finally:
        programs.end_all()


def test_it_waits_for_its_broker_and_can_be_stopped_meanwhile(programs: Programs) -> None:
    worker = programs.start("pyoco-worker", "--demo", "--nats-url", f"nats://127.0.0.1:{free_port()}")
    try:
        worker.says("waiting for the broker")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0, worker.errors
    finally:
        programs.end_all()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--flow-resolver", "nothing"],
        ["--flow-resolver", "nowhere:resolve"],
        ["--flow-resolver", "missing.py:resolve"],
        ["--demo", "--worker-id", "host:123"],
        ["--demo", "--tags", "a.b"],
        ["--demo", "--concurrency", "0"],
        ["--demo", "--run-once", "--reload"],
        ["--bogus"],
    ],
)
def test_wrong_arguments_end_with_1_and_an_example(programs: Programs, arguments: list[str]) -> None:
    refused = programs.run("pyoco-worker", *arguments)
    assert refused.ended() == 1
    assert "ERR-PYOCO-0018" in refused.errors
    assert "try:   " in refused.errors
    assert "Traceback" not in refused.errors


def test_a_setting_that_cannot_be_used_ends_with_1_and_its_name(
    programs: Programs, nats_server: NatsServer
) -> None:
    refused = programs.run("pyoco-worker", "--demo", PYOCO_CONSUMER_ACK_WAIT_SEC="soon")
    assert refused.ended() == 1
    assert "PYOCO_CONSUMER_ACK_WAIT_SEC" in refused.errors


async def _completed(client: PyocoNatsClient, run_id: str) -> bool:
    return await _has_status(client, run_id, "COMPLETED")


async def _has_status(client: PyocoNatsClient, run_id: str, status: str) -> bool:
    return bool((await client.get_run(run_id))["status"] == status)
