"""GET /runs/{id}, its tasks, and waiting for its end."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import quote

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.engine.building import raising
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import Flows, chain, foreign_job, lawful, publish_job, working

SHOWN = {
    "run_id", "flow_name", "status", "params", "tasks", "heartbeat_at", "updated_at", "tag", "tags",
    "worker_id", "submitted_at", "start_time", "end_time", "error", "cancel_requested_at",
    "cancel_requested_by", "tenant_id", "api_key_id", "workflow_yaml_sha256", "workflow_yaml_bytes",
    "tasks_truncated",
}  # fmt: skip
RECORDS = {"task_records", "task_records_truncated"}
FLOWS = Flows(steps=chain(lambda: 1, lambda t1: t1 + 1), fails=chain(raising(ValueError("on purpose"))))


async def test_a_pending_run_is_shown_by_the_contract(client: httpx.AsyncClient) -> None:
    run_id = await submit(client, params={"a": 1}, tag="cpu")
    answer = await client.get(f"/runs/{run_id}")
    assert answer.status_code == 200
    shown = answer.json()
    assert set(shown) == SHOWN
    assert (shown["run_id"], shown["flow_name"], shown["status"]) == (run_id, "noop", "PENDING")
    assert (shown["params"], shown["tasks"], shown["tag"], shown["tags"]) == ({"a": 1}, {}, "cpu", ["cpu"])
    assert (shown["start_time"], shown["end_time"], shown["worker_id"], shown["error"]) == (None,) * 4
    assert shown["submitted_at"] == shown["updated_at"] == shown["heartbeat_at"]
    assert abs(time.time() - shown["updated_at"]) < 60


@pytest.mark.parametrize("include", ["records", "full", "all"])
async def test_records_are_shown_when_they_are_asked_for(
    client: httpx.AsyncClient, store: Store, include: str
) -> None:
    async with working(store.config, FLOWS) as worker:
        run_id = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
    plain = (await client.get(f"/runs/{run_id}")).json()
    assert set(plain) == SHOWN
    assert (plain["status"], plain["tasks"]) == ("COMPLETED", {"t1": "SUCCEEDED", "t2": "SUCCEEDED"})
    detailed = (await client.get(f"/runs/{run_id}", params={"include": include})).json()
    assert set(detailed) == SHOWN | RECORDS
    assert {name: record["output"] for name, record in detailed["task_records"].items()} == {"t1": 1, "t2": 2}
    assert detailed["task_records_truncated"] is False


async def test_an_unknown_include_is_refused(client: httpx.AsyncClient) -> None:
    run_id = await submit(client)
    answer = await client.get(f"/runs/{run_id}", params={"include": "everything"})
    assert expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["query", "include"]


async def test_tasks_are_shown_with_their_records(client: httpx.AsyncClient, store: Store) -> None:
    async with working(store.config, FLOWS) as worker:
        run_id = await submit(client, "fails")
        await worker.run_once(timeout=20.0)
    shown = (await client.get(f"/runs/{run_id}/tasks")).json()
    assert set(shown) == {"run_id", "flow_name", "status", "tasks"} | RECORDS
    assert (shown["status"], shown["tasks"]) == ("FAILED", {"t1": "FAILED"})
    assert "on purpose" in shown["task_records"]["t1"]["error"]
    assert (await client.get(f"/runs/{run_id}")).json()["error"] == shown["task_records"]["t1"]["error"]


NOBODY = "0e2f3b5c-5d59-4f2a-9b40-b1c7a3b6a7d0"
ODD_IDS = ["nope", NOBODY, "a.b", "*", ">", "x" * 65, "ü", " ", "%00", "..%2f", "$KV.x"]


@pytest.mark.parametrize("odd", ODD_IDS)
@pytest.mark.parametrize("suffix", ["", "/tasks"])
async def test_what_is_no_run_is_not_found(client: httpx.AsyncClient, odd: str, suffix: str) -> None:
    await submit(client)
    path = odd if "%" in odd else quote(odd)
    answer = await client.get(f"/runs/{path}{suffix}")
    assert answer.status_code == 404
    if "2f" not in odd:  # which is no path of ours any more
        assert expect_error(answer, 404, "ERR-PYOCO-0005")["message"] == "The run was not found"


async def test_a_wait_answers_as_soon_as_the_run_is_over(client: httpx.AsyncClient, store: Store) -> None:
    async with working(store.config) as worker:
        run_id = await submit(client)
        waiting = asyncio.create_task(client.get(f"/runs/{run_id}", params={"wait": "30"}))
        assert await worker.run_once(timeout=20.0) == run_id
        answer = await asyncio.wait_for(waiting, 10.0)
    assert answer.json()["status"] == "COMPLETED"
    again = await client.get(f"/runs/{run_id}", params={"wait": "30"})
    assert again.json()["status"] == "COMPLETED"


async def test_a_wait_answers_the_present_state_when_the_time_is_up(client: httpx.AsyncClient) -> None:
    run_id = await submit(client)
    answer = await client.get(f"/runs/{run_id}", params={"wait": "0.05"})
    assert (answer.status_code, answer.json()["status"]) == (200, "PENDING")


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "soon", ""])
async def test_a_wait_out_of_bounds_is_refused(client: httpx.AsyncClient, wait: str) -> None:
    run_id = await submit(client)
    answer = await client.get(f"/runs/{run_id}", params={"wait": wait})
    assert expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["query", "wait"]


async def test_a_wait_for_a_run_that_is_not_there_does_not_wait(client: httpx.AsyncClient) -> None:
    answer = await asyncio.wait_for(client.get(f"/runs/{NOBODY}", params={"wait": "30"}), 5.0)
    expect_error(answer, 404, "ERR-PYOCO-0005")


async def test_a_run_of_another_producer_is_seen_like_any_other(
    client: httpx.AsyncClient, store: Store
) -> None:
    job = foreign_job(params={"a": 1})
    async with working(store.config) as worker:
        await publish_job(store, job)
        assert await worker.run_once(timeout=20.0) == job["run_id"]
    shown = (await client.get(f"/runs/{job['run_id']}")).json()
    assert (shown["status"], shown["params"]) == ("COMPLETED", {"a": 1})
    assert [run["run_id"] for run in (await client.get("/runs")).json()] == [job["run_id"]]
    await lawful(store, job["run_id"])
