"""One test for each requirement of the specification, by its id, through what users have in their hands."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.http_api import pages
from pyoco_server.http_api.streaming import sse
from pyoco_server.ids import new_uuid
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.cli.conftest import starter
from tests.cli.programs import Program, Programs, wait_for
from tests.conftest import until
from tests.contract.conftest import Stage, ended, run_to_end
from tests.contract.keys import with_keys
from tests.contract.wheels import a_wheel
from tests.http_api.serving import serving
from tests.worker.stage import Flows, jobs_queued, letters, one_task, working

YAML = """\
version: 1
flow:
  graph: |
    hello
tasks:
  hello:
    callable: {module}:hello
"""


async def test_req_0001_health_says_that_we_live(config: NatsBackendConfig) -> None:
    unreachable = replace(config, nats_url="nats://127.0.0.1:1")
    async with serving(unreachable, wait_ready=False) as client:
        answer = await client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_req_0002_a_submission_is_a_snapshot_and_a_job(client: httpx.AsyncClient, store: Store) -> None:
    answer = await client.post("/runs", json={"flow_name": "hello", "params": {"a": 1}})
    assert answer.json()["status"] == "PENDING"
    snapshot = await store.runs.snapshots.get(answer.json()["run_id"])
    assert snapshot is not None
    assert (snapshot.status, snapshot.params) == ("PENDING", {"a": 1})
    assert await jobs_queued(store) == 1


async def test_req_0003_without_a_job_there_is_no_run(
    config: NatsBackendConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(config) as client:
        app = client._transport.app  # type: ignore[attr-defined]

        async def refused(*_: Any) -> None:
            raise Unavailable("The broker is away.")

        monkeypatch.setattr(app.state.gateway.store.queue, "publish", refused)
        answer = await client.post("/runs", json={"flow_name": "hello"})
        assert answer.status_code == 503
        assert (await client.get("/runs")).json() == []


async def test_req_0004_a_run_is_shown_as_it_is(client: httpx.AsyncClient, worker: PyocoNatsWorker) -> None:
    shown = await run_to_end(client, "hello")
    wanted = {"run_id", "flow_name", "status", "params", "tasks", "heartbeat_at", "updated_at"}
    assert wanted <= set(shown)
    assert shown["status"] == "COMPLETED"
    plain = (await client.get(f"/runs/{shown['run_id']}")).json()
    assert "task_records" not in plain


async def test_req_0005_tasks_come_with_their_records(
    client: httpx.AsyncClient, worker: PyocoNatsWorker
) -> None:
    run = await run_to_end(client, "hello")
    shown = (await client.get(f"/runs/{run['run_id']}/tasks")).json()
    assert shown["tasks"] == {"only": "SUCCEEDED"}
    assert shown["task_records"]["only"]["output"] == "hello"
    assert shown["task_records_truncated"] is False


async def test_req_0006_runs_are_listed_and_paged(client: httpx.AsyncClient) -> None:
    runs = [(await client.post("/runs", json={"flow_name": "hello"})).json()["run_id"] for _ in range(5)]
    assert {run["run_id"] for run in (await client.get("/runs")).json()} == set(runs)
    found: list[str] = []
    asked: dict[str, Any] = {"updated_after": 0, "limit": 2}
    while True:
        page = (await client.get("/runs", params=asked)).json()
        found += [run["run_id"] for run in page["items"]]
        if not page.get("next_cursor") or not page["items"]:
            break
        asked["cursor"] = page["next_cursor"]
    assert sorted(found) == sorted(runs)


async def test_req_0007_what_is_missing_is_created_at_start(store: Store, config: NatsBackendConfig) -> None:
    names = [config.work_stream, config.dlq_stream, config.events_stream, f"KV_{config.runs_kv_bucket}"]
    for name in [*names, f"KV_{config.workers_kv_bucket}"]:
        assert (await store.jetstream.api(f"STREAM.INFO.{name}"))["config"]["name"] == name
    assert (await store.jetstream.api(f"STREAM.INFO.{config.work_stream}"))["config"][
        "retention"
    ] == "workqueue"


async def test_req_0008_a_worker_executes_its_tags_only(config: NatsBackendConfig) -> None:
    async with (
        serving(config) as client,
        working(config, Flows(), worker_id="gpu", tags=["gpu"]) as worker,
    ):
        other = (await client.post("/runs", json={"flow_name": "noop", "tag": "cpu"})).json()["run_id"]
        ours = (await client.post("/runs", json={"flow_name": "noop", "tag": "gpu"})).json()["run_id"]
        assert await worker.run_once(timeout=20.0) == ours
        assert await worker.run_once(timeout=0.1) is None
        assert (await ended(client, ours))["worker_id"] == "gpu"
        assert (await client.get(f"/runs/{other}")).json()["status"] == "PENDING"


async def test_req_0009_the_job_goes_after_the_end_is_written(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(config) as client, working(config, Flows()) as worker:
        store = worker._store
        append = store.runs.append
        is_at_the_end, may_end = asyncio.Event(), asyncio.Event()

        async def held_at_the_end(at: Any, events: Any, commit_id: str, **more: Any) -> Any:
            if any(type(event).__name__ == "RunCompleted" for event in events):
                is_at_the_end.set()
                await may_end.wait()
            return await append(at, events, commit_id, **more)

        monkeypatch.setattr(store.runs, "append", held_at_the_end)
        run_id = (await client.post("/runs", json={"flow_name": "noop"})).json()["run_id"]
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(is_at_the_end.is_set)
        # Asked over the worker's own connection: an ACK that was sent before has arrived by then.
        assert await jobs_queued(store) == 1
        may_end.set()
        assert await running == run_id
        await until(lambda: _no_jobs(store))
        assert (await client.get(f"/runs/{run_id}")).json()["status"] == "COMPLETED"


async def test_req_0010_a_long_run_is_not_delivered_again(config: NatsBackendConfig, stage: Stage) -> None:
    quick = replace(config, consumer_ack_wait_sec=0.5, ack_progress_interval_sec=0.1)
    async with serving(quick) as client, working(quick, stage.flows) as worker, working(quick) as other:
        run_id = (await client.post("/runs", json={"flow_name": "waits"})).json()["run_id"]
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(stage.started.is_set)
        assert await other.run_once(timeout=1.5) is None  # three times the AckWait
        stage.go_on.set()
        assert await running == run_id


async def test_req_0011_a_large_snapshot_leaves_out_records_and_says_so(config: NatsBackendConfig) -> None:
    small = replace(config, max_run_snapshot_bytes=8_000)
    flows = Flows(large=one_task(lambda: "x" * 20_000))
    async with serving(small) as client, working(small, flows) as worker:
        run_id = (await client.post("/runs", json={"flow_name": "large"})).json()["run_id"]
        await worker.run_once(timeout=20.0)
        store = await Store.connect(small, name="test")
        snapshot = await store.runs.snapshots.get(run_id)
        await store.close()
    assert snapshot is not None
    assert snapshot.task_records_truncated
    assert snapshot.tasks == {"only": "SUCCEEDED"}
    assert len(msgspec.json.encode(snapshot)) <= 8_000


async def test_req_0012_failures_end_as_dead_letters(
    client: httpx.AsyncClient, store: Store, worker: PyocoNatsWorker
) -> None:
    failed = await run_to_end(client, "fails")
    unknown = await run_to_end(client, "nobody_has_it")
    await store.jetstream.publish(f"{store.config.work_subject_prefix}.default", b"not a job")
    found = await until(lambda: _letters(store, 3))
    assert (failed["status"], unknown["status"]) == ("FAILED", "FAILED")
    assert found == {"execution_error", "flow_not_found", "invalid_job"}
    await until(lambda: _no_jobs(store))


def test_req_0013_real_processes_log_an_error_with_where_and_what(tmp_path: Path) -> None:
    """More of it: tests/cli/test_process_logs.py, tests/cli/worker/test_worker_logs.py."""
    (tmp_path / "broken_flows.py").write_text(
        "def resolve(name):\n    raise OSError(f'no disk for {name}')\n"
    )
    programs = Programs(tmp_path)
    try:
        up = starter(programs)("--flow-resolver", "broken_flows.py:resolve", "--worker-id", "w-1")
        assert httpx.get(f"{up.url}/runs/{new_uuid()}").status_code == 404
        run_id = httpx.post(f"{up.url}/runs", json={"flow_name": "f"}).json()["run_id"]
        refused = _logged_line(up.program, "ERR-PYOCO-0005")
        failed = _logged_line(up.program, "ERR-PYOCO-0007")
    finally:
        programs.end_all()
    assert (refused["service"], refused["msg_id"]) == ("pyoco-server:http", "MSG-PYOCO-0005")
    assert (failed["service"], failed["msg_id"]) == ("pyoco-server:worker", "MSG-PYOCO-0007")
    for line in (refused, failed):
        assert {"ts", "level", "logger", "pathname", "lineno", "func"} <= line.keys()
        assert line["exc_origin"].keys() == {"file", "line", "func"}
        assert f"{line['exc_type']}: {line['exc_message']}" in line["exc_traceback"]
    assert (failed["exc_type"], failed["exc_message"]) == ("OSError", "no disk for f")
    context = [failed[name] for name in ("run_id", "flow_name", "tag", "worker_id", "reason")]
    assert context == [run_id, "f", "default", "w-1", "execution_error"]


def _logged_line(program: Program, err_id: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        whole = [line for line in program.output.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in map(json.loads, whole) if line.get("err_id") == err_id]

    return wait_for(found, f"a line with {err_id}")[0]


async def test_req_0014_metrics_are_prometheus_text(
    client: httpx.AsyncClient, worker: PyocoNatsWorker
) -> None:
    await run_to_end(client, "hello")
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'pyoco_runs_total{status="COMPLETED"} 1' in answer.text
    assert "pyoco_workers_alive_total 1" in answer.text
    assert "pyoco_dlq_messages_total 0" in answer.text


async def test_req_0015_workers_are_listed_with_their_state(
    client: httpx.AsyncClient, worker: PyocoNatsWorker
) -> None:
    [shown] = (await client.get("/workers")).json()
    assert (shown["worker_id"], shown["state"], shown["hidden"]) == ("w", "IDLE", False)
    assert shown["tags"] == ["default"]
    assert shown["last_seen_at"] > 0


async def test_req_0016_without_a_key_nothing_is_answered(config: NatsBackendConfig) -> None:
    async with with_keys(config) as (client, key):
        run_id = "00000000-0000-4000-8000-000000000000"
        run, wheel = f"/runs/{run_id}", "/wheels/demo-1.0-py3-none-any.whl"
        reading = ["/runs", run, f"{run}/tasks", f"{run}/watch", "/workers", "/metrics"]
        reading += ["/wheels", "/wheels/history", wheel]
        asked = [("GET", path) for path in reading]
        asked += [("POST", path) for path in ("/runs", "/runs/yaml", f"{run}/cancel", "/wheels")]
        for method, path in [*asked, ("PATCH", "/workers/w"), ("DELETE", wheel)]:
            missing = await client.request(method, path)
            wrong = await client.request(method, path, headers={"X-API-Key": "wrong"})
            assert (missing.status_code, wrong.status_code) == (401, 403), (method, path)
        assert (await client.get("/runs", headers={"X-API-Key": key("a")})).status_code == 200


async def test_req_0017_a_tenant_sees_its_own_runs_only(config: NatsBackendConfig) -> None:
    async with with_keys(config) as (client, key):
        ours, theirs = {"X-API-Key": key("a")}, {"X-API-Key": key("b")}
        answer = await client.post("/runs", json={"flow_name": "hello"}, headers=ours)
        run_id = answer.json()["run_id"]
        shown = (await client.get(f"/runs/{run_id}", headers=ours)).json()
        assert shown["tenant_id"] == "a"
        assert shown["api_key_id"]
        for path in (f"/runs/{run_id}", f"/runs/{run_id}/tasks", f"/runs/{run_id}/watch"):
            assert (await client.get(path, headers=theirs)).status_code == 404, path
        assert (await client.post(f"/runs/{run_id}/cancel", headers=theirs)).status_code == 404
        assert [run["run_id"] for run in (await client.get("/runs", headers=ours)).json()] == [run_id]
        assert (await client.get("/runs", headers=theirs)).json() == []


async def test_req_0018_a_flow_yaml_is_submitted_and_executed(config: NatsBackendConfig) -> None:
    allowed = replace(config, callable_allow="tests.contract.tasks")
    async with serving(allowed) as client, working(allowed, Flows()) as worker:
        text = YAML.format(module="tests.contract.tasks").encode()
        answer = await client.post(
            "/runs/yaml",
            data={"flow_name": "from_yaml"},
            files={"workflow": ("flow.yaml", text, "application/yaml")},
        )
        assert answer.status_code == 200, answer.text
        assert await worker.run_once(timeout=20.0) == answer.json()["run_id"]
        run = await ended(client, answer.json()["run_id"])
    assert (run["status"], run["flow_name"], run["workflow_yaml_bytes"]) == (
        "COMPLETED",
        "from_yaml",
        len(text),
    )
    assert run["task_records"]["hello"]["output"] == "hello from yaml"


async def test_req_0019_a_watched_run_comes_by_itself(
    client: httpx.AsyncClient, stage: Stage, worker: PyocoNatsWorker
) -> None:
    run_id = (await client.post("/runs", json={"flow_name": "waits"})).json()["run_id"]
    await until(stage.started.is_set)
    streams = client._transport.app.state.gateway.streams  # type: ignore[attr-defined]
    watching = asyncio.create_task(client.get(f"/runs/{run_id}/watch"))
    await until(lambda: len(streams) == 1)
    stage.go_on.set()
    answer = await asyncio.wait_for(
        watching, sse.KEEP_ALIVE_SEC / 2
    )  # pushed: a keep-alive would bring it too
    assert answer.headers["content-type"].startswith("text/event-stream")
    names = {line[7:] for line in answer.text.splitlines() if line.startswith("event: ")}
    assert names <= {"snapshot", "heartbeat"}
    data = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert {one["run_id"] for one in data} == {run_id}
    assert all(one["ts"] > 0 for one in data)
    assert [data[0]["snapshot"]["status"], data[-1]["snapshot"]["status"]] == ["RUNNING", "COMPLETED"]


async def test_req_0020_the_dashboard_or_how_to_get_it(client: httpx.AsyncClient) -> None:
    answer = await client.get("/")
    if not (pages.BUILT / "index.html").is_file():  # no Node was there when the package was built
        assert answer.status_code == 404
        assert "make dashboard" in answer.text
        return
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    names = re.findall(r'"\./static/([^"]+)"', answer.text)
    assert names
    for name in names:
        assert (await client.get(f"/static/{name}")).status_code == 200


def test_req_0021_a_run_is_submitted_read_and_cancelled_by_hand(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        up = starter(programs)()
        client = partial(programs.run, "pyoco-client", "--server", up.url)
        submitted = client("submit", "--flow-name", "ticker", "--tag", "demo")
        run_id = json.loads(submitted.output)["run_id"]
        assert json.loads(client("get", "--run-id", run_id).output)["run_id"] == run_id
        assert client("cancel", "--run-id", run_id, "--wait").ended() == 0
        wrong = client("submit", "--flow-name", "ticker", "--params", "{not json")
        assert wrong.ended() == 1
        assert "--params" in wrong.errors
    finally:
        programs.end_all()


async def test_req_0022_a_worker_is_hidden_and_shown_again(
    client: httpx.AsyncClient, worker: PyocoNatsWorker
) -> None:
    changed = (await client.patch("/workers/w", json={"hidden": True})).json()
    assert (changed["worker_id"], changed["hidden"]) == ("w", True)
    assert (await client.get("/workers")).json() == []
    assert len((await client.get("/workers", params={"include_hidden": "true"})).json()) == 1
    assert (await client.patch("/workers/w", json={"hidden": False})).json()["hidden"] is False
    assert [shown["worker_id"] for shown in (await client.get("/workers")).json()] == ["w"]


async def test_req_0023_a_cancel_is_recorded(client: httpx.AsyncClient, store: Store) -> None:
    run_id = (await client.post("/runs", json={"flow_name": "hello"})).json()["run_id"]
    asked = (await client.post(f"/runs/{run_id}/cancel")).json()
    assert asked["status"] == "CANCELLING"
    assert asked["cancel_requested_at"]
    again = (await client.post(f"/runs/{run_id}/cancel")).json()
    assert again["status"] == "CANCELLED"


async def test_req_0023_a_run_that_has_ended_is_answered_as_it_is(
    client: httpx.AsyncClient, worker: PyocoNatsWorker
) -> None:
    for flow, status in (("hello", "COMPLETED"), ("fails", "FAILED")):
        run = await run_to_end(client, flow)
        answer = await client.post(f"/runs/{run['run_id']}/cancel")
        assert answer.status_code == 200
        assert (answer.json()["status"], answer.json()["cancel_requested_at"]) == (status, None)


async def test_req_0024_a_running_run_is_told_and_ends_cancelled(
    config: NatsBackendConfig, store: Store, stage: Stage
) -> None:
    # Longer than this test may take: a run that is not told goes on until then.
    patient = replace(config, cancel_grace_period_sec=600)
    async with serving(patient) as client, working(patient, stage.flows) as worker:
        run_id = (await client.post("/runs", json={"flow_name": "waits"})).json()["run_id"]
        running = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(stage.started.is_set)
        assert (await client.post(f"/runs/{run_id}/cancel")).json()["status"] == "CANCELLING"
        assert await asyncio.wait_for(running, 30) == run_id
        assert (await client.get(f"/runs/{run_id}")).json()["status"] == "CANCELLED"
        await until(lambda: _no_jobs(store))


async def test_req_0025_wheels_are_kept_with_their_history(client: httpx.AsyncClient) -> None:
    name, content = a_wheel("demo_pkg", "1.0")
    sent = {"wheel": (name, content, "application/octet-stream")}
    uploaded = await client.post("/wheels", files=sent, data={"tags": "cpu,linux"})
    assert uploaded.status_code == 200, uploaded.text
    assert (uploaded.json()["name"], uploaded.json()["tags"]) == (name, ["cpu", "linux"])
    assert [wheel["name"] for wheel in (await client.get("/wheels")).json()] == [name]
    assert (await client.get(f"/wheels/{name}")).content == content
    assert (await client.post("/wheels", files=sent)).status_code == 409
    assert (await client.delete(f"/wheels/{name}")).json() == {"name": name, "deleted": True}
    history = (await client.get("/wheels/history")).json()
    assert [event["action"] for event in history] == ["delete", "upload"]


async def test_req_0026_a_worker_takes_the_wheels_of_its_tags(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    syncing = replace(config, wheel_sync_enabled=True, wheel_sync_dir=str(tmp_path / "wheels"))
    async with serving(syncing) as client:
        for package, tags in (("mine_pkg", "cpu"), ("theirs_pkg", "gpu"), ("all_pkg", "")):
            name, content = a_wheel(package, "1.0")
            answer = await client.post("/wheels", files={"wheel": (name, content)}, data={"tags": tags})
            assert answer.status_code == 200, answer.text
        before = list(sys.path)
        async with working(syncing, Flows(), worker_id="w", tags=["cpu"]):
            [shown] = (await client.get("/workers")).json()
            wheels = shown["wheel_sync"]["installed_wheels"]
        assert {wheel["wheel_name"].partition("-")[0] for wheel in wheels} == {"mine_pkg", "all_pkg"}
        assert sys.path == before


def test_every_requirement_has_its_test() -> None:
    ids = {f"test_req_{number:04}" for number in range(1, 27)}
    named = {"_".join(name.split("_")[:3]) for name in globals() if name.startswith("test_req_")}
    assert named == ids


async def _no_jobs(store: Store) -> bool:
    return await jobs_queued(store) == 0


async def _letters(store: Store, count: int) -> set[str] | None:
    found = await letters(store)
    return {str(letter["reason"]) for letter in found} if len(found) >= count else None
