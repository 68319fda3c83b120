"""GET /runs: a bare list, newest first, filtered and bounded."""

from __future__ import annotations

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.engine.building import raising
from tests.http_api.serving import expect_error, submit
from tests.http_api.tenants import as_tenants
from tests.worker.stage import Flows, one_task, working
from tests.worker.wait_stage import release_flow

SUMMARY = {
    "run_id", "flow_name", "tag", "tags", "status", "submitted_at", "updated_at", "heartbeat_at",
    "start_time", "end_time", "worker_id", "error", "cancel_requested_at", "tenant_id", "api_key_id",
}  # fmt: skip


async def ids(client: httpx.AsyncClient, **query: str | int | list[str]) -> list[str]:
    answer = await client.get("/runs", params=query)
    assert answer.status_code == 200, answer.text
    return [run["run_id"] for run in answer.json()]


async def test_an_empty_system_answers_an_empty_list(client: httpx.AsyncClient) -> None:
    answer = await client.get("/runs")
    assert (answer.status_code, answer.json()) == (200, [])


async def test_runs_are_listed_newest_first_as_summaries(client: httpx.AsyncClient) -> None:
    submitted = [await submit(client, params={"secret": n}) for n in range(5)]
    answer = await client.get("/runs")
    assert [run["run_id"] for run in answer.json()] == submitted[::-1]
    assert all(set(run) == SUMMARY for run in answer.json())


async def test_a_run_that_changed_comes_first(client: httpx.AsyncClient, store: Store) -> None:
    async with working(store.config) as worker:
        first, second = await submit(client), await submit(client, tag="elsewhere")
        assert await worker.run_once(timeout=20.0) == first
    assert await ids(client) == [first, second]


async def test_what_was_just_submitted_is_always_in_the_list(client: httpx.AsyncClient) -> None:
    for count in range(1, 21):
        await submit(client)
        assert len(await ids(client)) == count


async def test_filters_narrow_it_down_and_combine(client: httpx.AsyncClient, store: Store) -> None:
    flows = Flows(fails=one_task(raising(ValueError("no"))))
    async with working(store.config, flows, tags=["cpu"]) as worker:
        done = await submit(client, "noop", tag="cpu")
        failed = await submit(client, "fails", tag="cpu")
        for _ in range(2):
            await worker.run_once(timeout=20.0)
    pending = await submit(client, "noop", tag="gpu", tags=["cpu"])
    assert await ids(client, status="COMPLETED") == [done]
    assert await ids(client, status="FAILED") == [failed]
    assert await ids(client, status="PENDING") == [pending]
    assert await ids(client, status="CANCELLED") == []
    assert await ids(client, flow="noop") == [pending, done]
    assert await ids(client, tag="cpu") == [failed, done]
    assert await ids(client, tag="cpu", flow="noop") == [done]
    assert await ids(client, tag="cpu", flow="noop", status="PENDING") == []
    assert await ids(client, flow="' OR 1=1 --") == []


async def test_include_gives_whole_snapshots(client: httpx.AsyncClient, store: Store) -> None:
    async with working(store.config) as worker:
        run_id = await submit(client, params={"a": 1})
        await worker.run_once(timeout=20.0)
    shown = (await client.get("/runs", params={"include": "full"})).json()
    assert shown == [(await client.get(f"/runs/{run_id}", params={"include": "full"})).json()]
    assert shown[0]["task_records"]["only"]["output"] == "done"


async def test_the_limit_is_fifty_unless_told_and_at_most_two_hundred(client: httpx.AsyncClient) -> None:
    submitted = [await submit(client) for _ in range(60)][::-1]
    assert await ids(client) == submitted[:50]
    assert await ids(client, limit=1) == submitted[:1]
    assert await ids(client, limit=200) == submitted


BAD_LIMITS = ["0", "201", "-1", "x", "", "1.5", "1e2", " 5", "٣", "9" * 5000]


@pytest.mark.parametrize("limit", BAD_LIMITS, ids=lambda limit: limit[:10] or "empty")
async def test_a_limit_out_of_bounds_is_refused(client: httpx.AsyncClient, limit: str) -> None:
    refused = expect_error(await client.get("/runs", params={"limit": limit}), 422, "ERR-PYOCO-0017")
    assert refused["message"] == "The list query is not valid"
    assert refused["detail"][0]["loc"] == ["query", "limit"]


@pytest.mark.parametrize("status", ["DONE", "completed", "COMPLETED,FAILED", "__members__"])
async def test_an_unknown_status_is_refused(client: httpx.AsyncClient, status: str) -> None:
    answer = await client.get("/runs", params={"status": status})
    assert expect_error(answer, 422, "ERR-PYOCO-0017")["detail"][0]["loc"] == ["query", "status"]
    assert status not in answer.text.replace("COMPLETED, FAILED", "")


async def test_runs_are_found_by_several_statuses_and_by_whether_they_wait(
    client: httpx.AsyncClient, store: Store
) -> None:
    async with working(store.config, Flows(release=release_flow([]))) as worker:
        waiting = await submit(client, "release")
        await worker.run_once(timeout=20.0)
    pending, cancelled = await submit(client, tag="gpu"), await submit(client, tag="gpu")
    await client.post(f"/runs/{cancelled}/cancel")
    assert await ids(client, status="WAITING") == await ids(client, status="RUNNING") == [waiting]
    assert await ids(client, status="EXECUTING") == []
    assert await ids(client, status=["WAITING", "CANCELLED"]) == [cancelled, waiting]
    assert await ids(client, status=["PENDING", "RUNNING", "WAITING"]) == [pending, waiting]
    assert await ids(client, status=["PENDING", "WAITING"], flow="release") == [waiting]
    stats = (await client.get("/runs/stats")).json()
    assert (stats["counts"]["RUNNING"], stats["waiting"]) == (1, 1)
    first = (
        await client.get("/runs", params={"status": ["CANCELLED", "PENDING"], "cursor": "", "limit": 1})
    ).json()
    assert [run["run_id"] for run in first["items"]] == [cancelled]
    again = {"status": ["PENDING", "CANCELLED"], "cursor": first["next_cursor"], "limit": 1}
    rest = (await client.get("/runs", params=again)).json()
    assert [run["run_id"] for run in rest["items"]] == [pending]
    body = expect_error(
        await client.get("/runs", params={"status": ["PENDING", "LOST"]}), 422, "ERR-PYOCO-0017"
    )
    assert "LOST" not in str(body["detail"])
    await client.post(f"/runs/{waiting}/cancel")
    assert await ids(client, status="WAITING") == []
    assert (await client.get("/runs/stats")).json()["waiting"] == 0


async def test_a_short_id_is_a_range_of_the_primary_key(client: httpx.AsyncClient) -> None:
    ids = [(await client.post("/runs", json={"flow_name": "f"})).json()["run_id"] for _ in range(3)]
    page = (await client.get("/runs", params={"id_prefix": ids[0][:8]})).json()
    assert ids[0] in [run["run_id"] for run in page["items"]]
    assert all(run["run_id"].startswith(ids[0][:8]) for run in page["items"])
    assert page["next_cursor"] is None
    assert (await client.get("/runs", params={"id_prefix": "zzzz"})).json()["items"] == []
    refused = await client.get("/runs", params={"id_prefix": ids[0][:3]})
    assert refused.status_code == 422
    assert "at least 4 characters" in refused.text


async def test_a_short_id_finds_no_run_of_another_tenant(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "other") as (_, (acme, other)):
        run_id = await submit(acme)
        asked = {"id_prefix": run_id[:8]}
        found = (await acme.get("/runs", params=asked)).json()["items"]
        assert [run["run_id"] for run in found] == [run_id]
        assert (await other.get("/runs", params=asked)).json() == {"items": [], "next_cursor": None}
        assert (await other.get("/runs", params={"id_prefix": run_id})).json()["items"] == []
