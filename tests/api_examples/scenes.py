"""The scenes of the tour, face by face: what each operation is asked, and what only it can refuse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from pyoco_server.operations import schedules as schedule_operations
from tests.api_examples.calls import FORM, File
from tests.api_examples.tour import Tour
from tests.conftest import until
from tests.store.fleet.wheel_making import file_name, wheel_bytes
from tests.worker.stage import output_of, the_run

WORKFLOW = "flow: {graph: hello}\ntasks: {hello: {use: noop}}\n"
FLOW_FILE = File("flow.yaml", WORKFLOW.encode(), WORKFLOW)
Members = dict[str, Any]
# No worker takes runs of this tag: they stay as they are.
IDLE = "gpu"


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def show_runs(tour: Tour) -> None:
    # Before any run: what a worker has done is told a little later.
    await tour.show(200, "list_workers", scope="active")
    await tour.show(200, "list_tags")
    await tour.show(200, "stream_workers", timeout_sec=5)
    submission: Members = {"flow_name": "daily_report", "params": {"day": "2026-02-18"}, "tag": "default"}
    asked: Members = {"headers": keyed("report-2026-02-18")}
    run_id = (await tour.show(200, "submit_run", body=submission, **asked))["run_id"]
    await tour.show(409, "submit_run", body=submission | {"params": {"day": "2026-02-19"}}, **asked)
    await tour.show(422, "submit_run", body={"params": {}})
    await tour.show(200, "get_run", run_id=run_id, wait=20)
    await tour.show(200, "list_flows")
    await tour.show(200, "get_tasks", run_id=run_id)
    await tour.show(200, "get_run_graph", run_id=run_id)
    await tour.show(200, "get_result", run_id=run_id)
    await tour.show(200, "list_runs", status="COMPLETED", limit=1)
    await tour.show(200, "run_stats")
    await _show_run_streams(tour, run_id)
    again: Members = {"run_id": run_id, "headers": keyed("again")}
    retried = await tour.show(200, "retry_run", body={"from": "start"}, **again)
    await tour.show(409, "retry_run", body={"from": "failed"}, **again)
    await tour.show(200, "get_run", run_id=retried["run_id"], wait=20)
    await _show_refused_results(tour)
    idle = (await tour.show(200, "submit_run", body=submission | {"tag": IDLE}))["run_id"]
    await tour.show(409, "get_result", run_id=idle)
    stop: Members = {"run_id": idle, "headers": keyed("stop")}
    await tour.show(200, "cancel_run", body={"reason": "The wrong day."}, **stop)
    await tour.show(409, "cancel_run", body={"reason": "Another one."}, **stop)
    await tour.show(422, "cancel_run", run_id=idle, body=b"{")
    form: Members = {"flow_name": "hello", "tag": IDLE, "workflow": FLOW_FILE}
    await tour.show(200, "submit_run_yaml", body=form, kind=FORM, headers=keyed("hello"))
    await tour.show(409, "submit_run_yaml", body=form | {"flow_name": "b"}, kind=FORM, headers=keyed("hello"))
    await tour.show(422, "submit_run_yaml", body={"workflow": FLOW_FILE}, kind=FORM)
    await tour.show(201, "issue_ticket", body={"path": f"/runs/{run_id}/watch"})


async def _show_run_streams(tour: Tour, run_id: str) -> None:
    shown = await tour.show(200, "watch_run", run_id=run_id)
    await tour.show(204, "watch_run", run_id=run_id, last_event_id=last_id(shown))
    await tour.show(200, "stream_runs", timeout_sec=5)
    await show_log(tour, "get_logs", "stream_logs", run_id=run_id)
    await tour.show(200, "stream", topic=[f"run:{run_id}"], timeout_sec=5)
    await tour.show(422, "stream", topic=["rain"])


async def show_log(tour: Tour, pages: str, stream: str, **which: Any) -> None:
    await tour.show(200, pages, limit=2, **which)
    for kind in ("application/x-ndjson", "text/plain"):
        await tour.show(200, pages, headers={"Accept": kind}, **which)
    await tour.show(206, pages, headers={"Accept": "text/plain", "Range": "bytes=0-13"}, **which)
    await tour.show(304, pages, headers={"If-None-Match": await tour.tag_of(pages, which)}, **which)
    shown = await tour.show(200, stream, events=99, **which)
    await tour.show(204, stream, headers={"Last-Event-ID": last_id(shown)}, **which)


async def _show_refused_results(tour: Tour) -> None:
    run_id = (await tour.show(200, "submit_run", body={"flow_name": "export"}))["run_id"]
    await tour.show(200, "get_run", run_id=run_id, wait=20)
    run = await the_run(tour.store, run_id)
    await tour.store.results.objects.put(output_of(run, "only")["object"], b'"something else"')
    await tour.show(500, "get_result", run_id=run_id)


async def show_batches(tour: Tour) -> None:
    wanted = [{"flow_name": "hello", "params": {"name": name}, "tag": IDLE} for name in ("Ann", "Bob")]
    key = {"Idempotency-Key": "batch-1"}
    await tour.show(200, "submit_batch", body=[*wanted, {"flow_name": ""}], headers=key)
    await tour.show(409, "submit_batch", body=wanted, headers=key)
    written = '{"flow_name": "hello", "tag": "idle"}\n{"flow_name": "hello", "tag": "idle"}\n'
    lines = {"Content-Type": "application/x-ndjson"}
    await tour.show(200, "submit_batch", body=written, kind="application/x-ndjson", headers=lines)
    await tour.show(422, "submit_batch", body=[*wanted, {"flow_name": ""}], atomic="true")
    batch, _ = await tour.show(200, "list_batches", limit=5)
    batch_id = batch["batch_id"]
    await tour.show(200, "get_batch", batch_id=batch_id)
    await tour.show(200, "cancel_batch", batch_id=batch_id, body={"reason": "a wrong file"})
    await tour.show(422, "cancel_batch", batch_id=batch_id, body=b"{")
    await tour.show(200, "watch_batch", batch_id=batch_id, timeout_sec=5)


async def show_schedules(tour: Tour) -> None:
    daily: Members = {"flow_name": "daily_report", "tag": IDLE, "cron": "30 8 * * mon-fri"}
    daily |= {"timezone": "Asia/Tokyo"}
    schedule_id = (await tour.show(200, "create_schedule", body=daily))["schedule_id"]
    await tour.show(422, "create_schedule", body=daily | {"interval_seconds": 60})
    form: Members = {"flow_name": "hello", "interval_seconds": 3600, "workflow": FLOW_FILE}
    await tour.show(200, "create_yaml_schedule", body=form, kind=FORM)
    await tour.show(422, "create_yaml_schedule", body={"workflow": FLOW_FILE}, kind=FORM)
    [one, *_] = await schedule_operations.list_schedules(tour.store, tenant_id=None)
    many = [one] * schedule_operations.ACTIVE_MAX
    with patch.object(schedule_operations, "list_schedules", return_value=many):
        await tour.show(409, "create_schedule", body=daily)
        await tour.show(409, "create_yaml_schedule", body=form, kind=FORM)
    await tour.show(200, "list_schedules", upcoming=2)
    await tour.show(422, "list_schedules", upcoming=99)
    await tour.show(200, "preview_schedule", cron="30 8 * * mon-fri", timezone="Asia/Tokyo", upcoming=2)
    await tour.show(422, "preview_schedule", cron="61 * * * *")
    await tour.show(200, "run_schedule", schedule_id=schedule_id)
    long_key = {"Idempotency-Key": "k" * 300}
    await tour.show(422, "run_schedule", schedule_id=schedule_id, headers=long_key)
    soon = (datetime.now(UTC) + timedelta(seconds=0.3)).isoformat()
    once: Members = {"flow_name": "daily_report", "tag": IDLE, "run_at": soon}
    due = (await tour.show(200, "create_schedule", body=once))["schedule_id"]

    async def begun() -> bool:
        answer = await tour.client.get(f"/schedules/{due}/runs", headers=tour.admin)
        return bool(answer.json())

    async def ended() -> bool:
        return await tour.store.schedules.begins_with(due) is None

    await until(begun)
    await tour.show(200, "list_schedule_runs", schedule_id=due, limit=1)
    await until(ended)
    await tour.show(409, "run_schedule", schedule_id=due)
    await _show_changed_schedules(tour, schedule_id, due)
    await tour.show(200, "delete_schedule", schedule_id=schedule_id)


async def _show_changed_schedules(tour: Tour, schedule_id: str, ended: str) -> None:
    await tour.show(200, "get_schedule", schedule_id=schedule_id, upcoming=2)
    await tour.show(422, "get_schedule", schedule_id=schedule_id, upcoming=99)
    changes: Members = {"revision": 1, "name": "Daily report", "overlap": "queue_one", "end_at": None}
    await tour.show(200, "edit_schedule", schedule_id=schedule_id, body=changes)
    await tour.show(409, "edit_schedule", schedule_id=schedule_id, body=changes)
    await tour.show(422, "edit_schedule", schedule_id=schedule_id, body={"revision": 2, "overlap": "never"})
    await tour.show(200, "pause_schedule", schedule_id=schedule_id)
    await tour.show(409, "pause_schedule", schedule_id=ended)
    await tour.show(200, "resume_schedule", schedule_id=schedule_id)
    await tour.show(409, "resume_schedule", schedule_id=ended)
    now = datetime.now(UTC)
    week: Members = {"from": (now - timedelta(days=7)).isoformat(), "to": now.isoformat(), "max_running": 2}
    await tour.show(200, "backfill_schedule", schedule_id=schedule_id, body=week)
    await tour.show(409, "backfill_schedule", schedule_id=schedule_id, body=week)
    await tour.show(200, "stop_backfill", schedule_id=schedule_id)
    await tour.show(
        422, "backfill_schedule", schedule_id=schedule_id, body={"from": "monday", "to": "friday"}
    )
    await tour.show(200, "list_occurrences", schedule_id=ended, limit=2)
    await tour.show(422, "list_occurrences", schedule_id=ended, limit=0)


async def show_executions(tour: Tour) -> None:
    wanted: Members = {"nodes": [{"id": "build"}, {"id": "deploy", "after": ["build"]}]}
    written = "nodes:\n  - {id: build}\n  - {id: deploy, after: [build]}\n  - {id: report, after: [deploy]}\n"
    await tour.show(201, "put_graph", graphId="release", body=wanted)
    await tour.show(200, "put_graph", graphId="release", body=wanted)
    yaml = {"Content-Type": "application/yaml"}
    await tour.show(201, "put_graph", graphId="release", body=written, kind="application/yaml", headers=yaml)
    await tour.show(422, "put_graph", graphId="release", body={"nodes": [{"id": "a", "after": ["b"]}]})
    await tour.show(200, "list_graphs", limit=10)
    await tour.show(200, "get_graph", graphId="release", version=1)
    execution_id = await _create(tour, "create-1")
    await tour.show(404, "CreateExecution", body={"graphId": "absent"}, headers=command("create-2"))
    driven = Driven(tour, execution_id)
    await driven.show("StartExecution", {})
    await driven.show("StartNode", {"attempt": 1, "workerId": "builder-7"}, nodeId="build")
    await driven.show("ReportNodeProgress", {"progress": 40, "message": "compiled"}, nodeId="build")
    asked: Members = {"waitKey": "approve", "prompt": {"question": "Ship it?"}}
    await driven.show("PutNodeWaiting", asked, nodeId="build")
    await driven.show("ResumeNode", {"resumeKey": "approve", "payload": {"by": "ada"}}, nodeId="build")
    await driven.show("SucceedNode", {"output": {"image": "shop:1.4"}}, nodeId="build")
    for read in ("get_execution", "explain_execution", "verify_execution", "list_execution_events"):
        await tour.show(200, read, executionId=execution_id)
    await tour.show(200, "get_execution_state", executionId=execution_id, atSeq=3)
    await tour.show(200, "stream_execution", executionId=execution_id, afterSeq=0, events=2)
    await driven.take("deploy")
    await driven.show("FailNode", {"error": {"code": "TIMEOUT", "message": "No answer."}}, nodeId="deploy")
    other = Driven(tour, await _create(tour, "create-3"))
    await other.show("CancelExecution", {"reason": "Not today."})
    await other.show("ArchiveExecution", {})
    last = len((await tour.show(200, "list_execution_events", executionId=execution_id))["events"])
    await tour.show(204, "stream_execution", executionId=execution_id, afterSeq=last)
    await tour.show(200, "list_executions", graphId="release", limit=1)


async def _create(tour: Tour, key: str) -> str:
    wanted: Members = {"graphId": "release", "input": {"version": "1.4"}, "graphVersion": 1}
    made = await tour.show(202, "CreateExecution", body=wanted, headers=command(key))
    await tour.show(200, "CreateExecution", body=wanted, headers=command(key))
    await tour.show(409, "CreateExecution", body={"graphId": "release"}, headers=command(key))
    return str(made["executionId"])


class Driven:
    """An execution, and the commands it has been sent."""

    def __init__(self, tour: Tour, execution_id: str) -> None:
        self._tour = tour
        self._id = execution_id

    async def show(self, name: str, body: Any, **which: Any) -> None:
        """Accepted, accepted before, and refused: its key came with another body."""
        sent: Members = {"executionId": self._id, "headers": command(f"{name}-1"), **which}
        await self._tour.show(202, name, body=body, **sent)
        await self._tour.show(200, name, body=body, **sent)
        await self._tour.show(409, name, body=body | {"note": "again"}, **sent)

    async def take(self, node: str) -> None:
        body = {"attempt": 1, "workerId": "builder-7"}
        sent: Members = {"executionId": self._id, "nodeId": node, "headers": command(f"take-{node}")}
        await self._tour.show(202, "StartNode", body=body, **sent)


def command(key: str) -> dict[str, str]:
    return {"X-Idempotency-Key": key, "X-Correlation-Id": "release-1.4"}


async def show_jobs(tour: Tour) -> None:
    wanted: Members = {"parameters": {"day": "2026-02-18"}, "tags": ["daily", "orders"]}
    job = (await tour.show(201, "create_job", body=wanted, headers=keyed("job-2026-02-18")))["id"]
    await tour.show(409, "create_job", body=wanted | {"tags": []}, headers=keyed("job-2026-02-18"))
    await tour.show(422, "create_job", body={"tags": "daily"})

    async def is_over() -> bool:
        answer = await tour.client.get(f"/jobs/{job}", headers=tour.admin)
        return bool(answer.json()["completedAt"])

    await until(is_over)
    await tour.show(200, "get_job", job_id=job)
    await tour.show(200, "list_jobs", tag=["daily"], limit=1)
    await tour.show(200, "get_job_tags", job_id=job)
    await tour.show(200, "add_job_tag", job_id=job, body={"tag": "checked"})
    await tour.show(422, "add_job_tag", job_id=job, body={"tag": 7})
    await tour.show(204, "remove_job_tag", job_id=job, tag="checked")
    await show_log(tour, "get_job_logs", "stream_job_logs", job_id=job)
    await tour.show(422, "get_job_logs", job_id=job, limit=0)
    await tour.show(101, "job_socket", job_id=job)
    idle = (await tour.show(201, "create_job", body=wanted | {"tag": IDLE}))["id"]
    await tour.show(409, "delete_job", job_id=idle, purge="true")
    await tour.show(204, "delete_job", job_id=idle)


async def show_rechecks(tour: Tour) -> None:
    many: Members = {"filter": {"tags_any": ["daily"], "health": ["unknown"]}, "batch_size": 25}
    many |= {"dry_run": False, "window": {"lookback_days": 7}, "reason": "daily-bulk"}
    request_id = (await tour.show(202, "recheck_all", body=many, headers=keyed("daily-01")))["request_id"]
    await tour.show(409, "recheck_all", body=many | {"reason": "weekly"}, headers=keyed("daily-01"))
    await tour.show(400, "recheck_all", body=many | {"batch_size": 0}, headers=keyed("daily-02"))

    async def is_over() -> bool:
        answer = await tour.client.get(f"/pdca/recheck/{request_id}", headers=tour.admin)
        return bool(answer.json()["status"] == "success")

    await until(is_over)
    status = await tour.show(200, "get_recheck", request_id=request_id)
    await tour.show(200, "get_gui_request", request_id=request_id)
    await tour.show(200, "list_strategies", tags_any="daily", page_size=50)
    strategy: Members = {"strategy_id": "strat.meanrev.m1"}
    await tour.show(200, "get_strategy", **strategy)
    await tour.show(200, "get_results", limit=10, **strategy)
    artifact = status["artifacts"][0]["artifact_id"]
    address = (await tour.show(200, "get_artifact_url", artifact_id=artifact))["signed_url"]
    token = address.partition("token=")[2]
    await tour.show(200, "get_artifact_content", artifact_id=artifact, tenant="default", token=token)
    await tour.show(403, "get_artifact_content", artifact_id=artifact, tenant="default", token="wrong")
    kept = (await tour.gateway.rechecks.model.catch_up()).artifact(artifact, "default")
    assert kept is not None
    await tour.store.artifacts.delete(kept.object)
    await tour.show(404, "get_artifact_content", artifact_id=artifact, tenant="default", token=token)
    named: Members = {"strategies": ["strat.meanrev.m1"], "window": {"lookback_days": 14}}
    named |= {"reason": "manual", "dry_run": False, "params": {"recalc_metrics": ["sharpe"]}}
    await tour.show(202, "recheck", body=named, headers=keyed("manual-01"))
    await tour.show(409, "recheck", body=named | {"reason": "weekly"}, headers=keyed("manual-01"))
    await tour.show(400, "recheck", body=named | {"window": {}}, headers=keyed("manual-02"))
    entry: Members = {
        "id": "strat.meanrev.m1",
        "title": "Mean reversion",
        "instrument": "USDJPY",
        "enabled": True,
        "tags": ["daily"],
        "owner": "desk-2",
        "metadata": {"since": 2019},
        "flow": "pdca_recheck",
        "threshold_profile": "default",
    }
    await tour.show(200, "put_strategy", body=entry, **strategy)
    await tour.show(400, "put_strategy", body=entry | {"title": 7}, **strategy)
    await tour.show(204, "delete_strategy", **strategy)


async def show_operator(tour: Tour) -> None:
    failed = (await tour.show(200, "submit_run", body={"flow_name": "load_orders"}))["run_id"]
    await tour.show(200, "get_run", run_id=failed, wait=20)
    letter = await until(lambda: _letter_of(tour, failed))
    await tour.show(200, "list_letters", limit=1)
    await tour.show(200, "get_letter", letter_id=letter)
    await tour.show(200, "redrive", letter_id=letter, body={"again": False})
    await tour.show(409, "redrive", letter_id=letter, body={"again": False})
    await tour.show(200, "dismiss", letter_id=letter, body={"note": "the schema was fixed in 1.4"})
    waiting = (await tour.show(200, "submit_run", body={"flow_name": "release"}))["run_id"]

    async def waits() -> bool:
        return bool((await tour.client.get("/approvals", headers=tour.admin)).json()["items"])

    await until(waits)
    await tour.show(200, "list_approvals", limit=1)
    await tour.show(200, "list_approval_history", limit=1)
    await tour.show(200, "cancel_run", run_id=waiting)
    await tour.show(200, "get_known_key", key="report-2026-02-18")
    await tour.show(422, "get_known_key", key="k" * 300)
    wheel = file_name("shop_flows", "1.4")
    file = File(wheel, wheel_bytes("shop-flows", "1.4"), f"(the bytes of {wheel})")
    form: Members = {"wheel": file, "tags": "default"}
    await tour.show(200, "upload_wheel", body=form, kind=FORM)
    await tour.show(409, "upload_wheel", body=form | {"replace": "false"}, kind=FORM)
    await tour.show(422, "upload_wheel", body={"tags": "default"}, kind=FORM)
    await tour.show(200, "list_wheels")
    await tour.show(200, "list_wheel_history", limit=1)
    await tour.show(200, "download_wheel", wheel_name=wheel)
    await tour.show(200, "delete_wheel", wheel_name=wheel)
    stopped = {"state": "STOPPED", "last_seen_at": 1.0, "last_heartbeat_at": 1.0, "tags": []}
    await tour.store.registry.merge("worker-0", stopped)
    await tour.show(200, "patch_worker", worker_id="worker-1", body={"hidden": False})
    await tour.show(409, "patch_worker", worker_id="worker-0", body={"draining": True})
    await tour.show(422, "patch_worker", worker_id="worker-1", body={})
    for name in ("get_system", "get_caller", "metrics", "health", "ready"):
        await tour.show(200, name)


async def _letter_of(tour: Tour, run_id: str) -> str | None:
    letters = (await tour.client.get("/dlq", headers=tour.admin)).json()["items"]
    return next((one["id"] for one in letters if one["run_id"] == run_id), None)


def last_id(events: str) -> str:
    return [line for line in events.splitlines() if line.startswith("id: ")][-1].removeprefix("id: ")
