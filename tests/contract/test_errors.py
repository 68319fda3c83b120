"""One test for each error of the specification, by its id: when it is said, where, and in both languages."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.log_context import context_fields
from pyoco_server.logging_config import configure_logging
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.store import Store
from pyoco_server.texts import text
from pyoco_server.worker import PyocoNatsWorker
from tests.cli.programs import Programs
from tests.conftest import until
from tests.contract.conftest import Stage, run_to_end
from tests.contract.keys import with_keys
from tests.contract.wheels import a_wheel
from tests.http_api.serving import expect_error, serving
from tests.worker.stage import Flows, one_task, submitted, working

NOBODY = "00000000-0000-4000-8000-000000000000"


def logged(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {record.err_id for record in caplog.records if hasattr(record, "err_id")}


def line_of(caplog: pytest.LogCaptureFixture, err_id: str) -> dict[str, Any]:
    return next(vars(one) for one in caplog.records if getattr(one, "err_id", None) == err_id)


class Contexts(logging.Handler):
    """The fields that a line has from the context it was written in, by its error."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, dict[str, Any]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.of[getattr(record, "err_id", "")] = dict(context_fields())


@pytest.fixture
def contexts() -> Iterator[Contexts]:
    handler = Contexts()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def refused(*_: Any, **__: Any) -> Any:
    raise Unavailable("The broker is away.")


async def refused_later(*_: Any, **__: Any) -> Any:
    refused()


def client_program(folder: Path, *arguments: str) -> tuple[int, str]:
    programs = Programs(folder)
    try:
        ended = programs.run("pyoco-client", *arguments)
        return ended.ended(), ended.errors
    finally:
        programs.end_all()


def test_err_0001_nobody_answers_at_the_address(tmp_path: Path) -> None:
    code, said = client_program(tmp_path, "--server", "http://127.0.0.1:1", "list")
    assert code == 1
    assert "ERR-PYOCO-0001" in said


async def test_err_0002_a_body_that_is_not_valid(client: httpx.AsyncClient) -> None:
    body = expect_error(await client.post("/runs", json={"params": {}}), 422, "ERR-PYOCO-0002")
    assert body["detail"][0]["loc"] == ["body", "flow_name"]


async def test_err_0003_the_broker_is_away(config: NatsBackendConfig) -> None:
    unreachable = replace(config, nats_url="nats://127.0.0.1:1", start_wait_sec=0)
    async with serving(unreachable, wait_ready=False) as client:
        for answer in (
            await client.post("/runs", json={"flow_name": "hello"}),
            await client.get("/runs"),
            await client.get(f"/runs/{NOBODY}"),
            await client.get("/workers"),
            await client.get("/metrics"),
            await client.get("/wheels"),
        ):
            expect_error(answer, 503, "ERR-PYOCO-0003")


async def test_err_0004_a_run_may_be_left_behind(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(config) as client:
        store = client._transport.app.state.gateway.store  # type: ignore[attr-defined]
        monkeypatch.setattr(store.queue, "publish", refused_later)
        monkeypatch.setattr(store.runs, "append", refused_later)
        answer = await client.post("/runs", json={"flow_name": "hello"})
    assert answer.status_code == 503
    (run_id,) = re.findall(r"[0-9a-f-]{36}", answer.text)
    line = line_of(caplog, "ERR-PYOCO-0004")
    assert (line["run_id"], line["flow_name"], line["tag"]) == (run_id, "hello", "default")
    assert "The broker is away." in str(line["exc_info"][1])


async def test_err_0005_there_is_no_such_run(client: httpx.AsyncClient) -> None:
    for path in (f"/runs/{NOBODY}", f"/runs/{NOBODY}/tasks", f"/runs/{NOBODY}/watch", "/runs/odd"):
        expect_error(await client.get(path), 404, "ERR-PYOCO-0005")
    expect_error(await client.post(f"/runs/{NOBODY}/cancel"), 404, "ERR-PYOCO-0005")


async def test_err_0006_no_worker_knows_the_flow(
    client: httpx.AsyncClient, worker: PyocoNatsWorker, caplog: pytest.LogCaptureFixture
) -> None:
    run = await run_to_end(client, "nobody_has_it")
    assert (run["status"], run["error"]) == (
        "FAILED",
        "flow_not_found: flow 'nobody_has_it' is not registered on this worker",
    )
    await until(lambda: "ERR-PYOCO-0006" in logged(caplog))


async def test_err_0007_the_flow_failed(
    client: httpx.AsyncClient, worker: PyocoNatsWorker, caplog: pytest.LogCaptureFixture
) -> None:
    run = await run_to_end(client, "fails")
    assert (run["status"], run["error"]) == ("FAILED", "on purpose")
    await until(lambda: "ERR-PYOCO-0007" in logged(caplog))


async def test_err_0008_the_end_cannot_be_written_yet(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(config) as client, working(config, Flows()) as worker:
        append = worker._store.runs.append
        failures = iter([True, True])

        async def sometimes(at: Any, events: Any, commit_id: str, **more: Any) -> Any:
            if any(type(event).__name__ == "RunCompleted" for event in events) and next(failures, False):
                refused()
            return await append(at, events, commit_id, **more)

        monkeypatch.setattr(worker._store.runs, "append", sometimes)
        run_id = (await client.post("/runs", json={"flow_name": "noop"})).json()["run_id"]
        assert await worker.run_once(timeout=20.0) == run_id
        assert (await client.get(f"/runs/{run_id}")).json()["status"] == "COMPLETED"
    assert "ERR-PYOCO-0008" in logged(caplog)


async def test_err_0009_it_cannot_be_said_that_a_run_is_in_progress(
    config: NatsBackendConfig, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Delivery, "in_progress", lambda _: False)
    quick = replace(config, ack_progress_interval_sec=0.02)
    async with serving(quick) as client, working(quick, stage.flows) as worker:
        await client.post("/runs", json={"flow_name": "waits"})
        task = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(lambda: "ERR-PYOCO-0009" in logged(caplog))
        stage.go_on.set()
        await task


async def test_err_0010_a_snapshot_is_too_large_whatever_is_left_out(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    tiny = replace(config, max_run_snapshot_bytes=100)
    store = await Store.connect(tiny, name="test")
    run_id = await submitted(store, "noop")
    assert (await store.runs.snapshots.get(run_id)) is not None, "its status is shown all the same"
    await store.close()
    assert "ERR-PYOCO-0010" in logged(caplog)


async def test_err_0011_a_dead_letter_cannot_be_sent(
    config: NatsBackendConfig, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(config) as client, working(config, stage.flows) as worker:
        run_id = (await client.post("/runs", json={"flow_name": "fails"})).json()["run_id"]
        publish = worker._store.jetstream.publish

        async def but_no_letters(subject: str, *rest: Any) -> Any:
            if subject.startswith(config.dlq_subject_prefix):
                refused()
            return await publish(subject, *rest)

        monkeypatch.setattr(worker._store.jetstream, "publish", but_no_letters)
        assert await worker.run_once(timeout=20.0) == run_id
        assert (await client.get(f"/runs/{run_id}")).json()["status"] == "FAILED"
    assert "ERR-PYOCO-0011" in logged(caplog)


async def test_err_0012_a_job_that_is_none(
    store: Store, worker: PyocoNatsWorker, caplog: pytest.LogCaptureFixture
) -> None:
    await store.jetstream.publish(f"{store.config.work_subject_prefix}.default", b'{"run_id": 7}')
    await until(lambda: "ERR-PYOCO-0012" in logged(caplog))


def test_err_0013_logging_that_cannot_be_set_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "xml")
    configure_logging("pyoco-server:http", stream=io.StringIO())
    assert "ERR-PYOCO-0013" in capsys.readouterr().err


async def test_err_0014_a_key_is_missing(config: NatsBackendConfig) -> None:
    async with with_keys(config) as (client, _):
        expect_error(await client.get("/runs"), 401, "ERR-PYOCO-0014")


async def test_err_0015_a_key_is_not_valid(config: NatsBackendConfig) -> None:
    async with with_keys(config) as (client, key):
        wrong = key("a")[:-4] + "AAAA"
        expect_error(await client.get("/runs", headers={"X-API-Key": wrong}), 403, "ERR-PYOCO-0015")


async def test_err_0016_a_flow_yaml_that_is_too_large(config: NatsBackendConfig) -> None:
    small = replace(config, workflow_yaml_max_bytes=100)
    async with serving(small) as client:
        sent = {"workflow": ("flow.yaml", b"# " + b"x" * 200, "application/yaml")}
        answer = await client.post("/runs/yaml", data={"flow_name": "f"}, files=sent)
        expect_error(answer, 413, "ERR-PYOCO-0016")


async def test_err_0017_a_list_that_cannot_be_asked_for(client: httpx.AsyncClient) -> None:
    wrongs: list[dict[str, Any]] = [{"limit": 0}, {"limit": 201}, {"include": "some"}, {"status": "DONE"}]
    wrongs += [{"updated_after": "nan"}, {"updated_after": "soon"}, {"cursor": "made up"}]
    for wrong in wrongs:
        body = expect_error(await client.get("/runs", params=wrong), 422, "ERR-PYOCO-0017")
        assert [one["loc"] for one in body["detail"]] == [["query", *wrong]]


def test_err_0018_arguments_that_are_not_valid(tmp_path: Path) -> None:
    code, said = client_program(tmp_path, "submit", "--flow-name", "f", "--params", "{not json")
    assert code == 1
    assert "ERR-PYOCO-0018" in said
    assert "try:" in said, "what to type instead"


async def test_err_0019_a_question_about_workers_that_is_not_valid(
    client: httpx.AsyncClient, worker: PyocoNatsWorker
) -> None:
    expect_error(await client.get("/workers", params={"scope": "some"}), 422, "ERR-PYOCO-0019")
    expect_error(await client.patch("/workers/w", json={"hidden": "perhaps"}), 422, "ERR-PYOCO-0019")


async def test_err_0020_there_is_no_such_worker(client: httpx.AsyncClient) -> None:
    expect_error(await client.patch("/workers/nobody", json={"hidden": True}), 404, "ERR-PYOCO-0020")


async def test_err_0021_a_cancel_that_is_not_heeded(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture, contexts: Contexts
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def stubborn() -> None:
        started.set()
        go_on.wait(30)

    quick = replace(config, cancel_grace_period_sec=0.1)
    async with serving(quick) as client, working(quick, Flows(stubborn=one_task(stubborn))) as worker:
        run_id = (await client.post("/runs", json={"flow_name": "stubborn"})).json()["run_id"]
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(started.is_set)
        await client.post(f"/runs/{run_id}/cancel")
        assert await running == run_id
        assert (await client.get(f"/runs/{run_id}")).json()["status"] == "CANCELLED"
        go_on.set()
    assert line_of(caplog, "ERR-PYOCO-0021")["run_id"] == run_id
    context = contexts.of["ERR-PYOCO-0021"]
    assert (context["flow_name"], context["tag"]) == ("stubborn", "default")


async def test_err_0022_a_wheel_that_is_not_newer(client: httpx.AsyncClient) -> None:
    async def upload(version: str) -> httpx.Response:
        name, content = a_wheel("demo_pkg", version)
        return await client.post("/wheels", files={"wheel": (name, content)})

    assert (await upload("2.0")).status_code == 200
    for older_or_same in ("1.0", "2.0"):
        expect_error(await upload(older_or_same), 409, "ERR-PYOCO-0022")


async def test_err_0023_there_is_no_such_wheel(client: httpx.AsyncClient) -> None:
    name, _ = a_wheel("nobodys", "1.0")
    expect_error(await client.get(f"/wheels/{name}"), 404, "ERR-PYOCO-0023")
    expect_error(await client.delete(f"/wheels/{name}"), 404, "ERR-PYOCO-0023")


async def test_err_0024_a_wheel_cannot_be_installed(
    config: NatsBackendConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    syncing = replace(config, wheel_sync_enabled=True, wheel_sync_dir=str(tmp_path / "wheels"))
    store = await Store.connect(syncing, name="test")
    await store.wheel_objects.put("broken_pkg-1.0-py3-none-any.whl", b"no zip at all")
    await store.close()
    async with working(syncing, Flows(), worker_id="w"):
        await until(lambda: "ERR-PYOCO-0024" in logged(caplog))


@pytest.mark.parametrize("number", range(1, 25))
def test_every_error_has_its_test_and_its_words(number: int) -> None:
    assert any(name.startswith(f"test_err_{number:04}") for name in globals())
    message = f"MSG-PYOCO-{number:04}"
    assert text(message, "ja") != text(message, "en")


async def test_the_callers_language_is_spoken(client: httpx.AsyncClient) -> None:
    japanese = await client.get(f"/runs/{NOBODY}", headers={"Accept-Language": "ja"})
    english = await client.get(f"/runs/{NOBODY}", headers={"Accept-Language": "en"})
    assert japanese.json()["message"] == text("MSG-PYOCO-0005", "ja")
    assert english.json()["message"] == text("MSG-PYOCO-0005", "en")
