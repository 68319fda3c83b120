"""`GET /approvals`: which tasks wait for an answer, for whom, page by page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from pyoco import Flow

from pyoco_server import approval
from pyoco_server.config import NatsBackendConfig
from tests.conftest import NatsServer
from tests.http_api.serving import expect_error, serving, submit
from tests.http_api.tenants import as_tenants
from tests.worker.stage import Flows, until_handled, working
from tests.worker.wait_stage import release_flow, resume

FLOWS = Flows(release=release_flow([], timeout_sec=60))


async def waiting(client: httpx.AsyncClient, config: NatsBackendConfig, count: int = 1) -> list[str]:
    run_ids = [await submit(client, "release") for _ in range(count)]
    async with working(config, FLOWS) as worker:
        for _ in range(count):
            assert await worker.run_once(5.0) in run_ids
    return run_ids


async def page(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/approvals", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_what_waits_is_listed_byte_by_byte_and_goes_when_it_is_answered(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    assert (await client.get("/approvals")).content == b'{"items":[],"next_cursor":null}'
    [run_id] = await waiting(client, config)
    answer = await client.get("/approvals")
    [item] = answer.json()["items"]
    expected = {
        "run_id": run_id,
        "task": "release",
        "wait_key": "release",
        "prompt": {"version": "v1"},
        "since": item["since"],
        "deadline_at": item["deadline_at"],
        "flow_name": "release",
        "tag": "default",
    }
    assert answer.content == msgspec.json.encode({"items": [expected], "next_cursor": None})
    assert 0 < item["deadline_at"] - item["since"] <= 60
    record = (await client.get(f"/runs/{run_id}", params={"include": "records"})).json()
    assert (record["status"], record["tasks"]["release"]) == ("RUNNING", "RUNNING")
    [summary] = (await client.get("/runs")).json()
    assert summary["waiting_for"] == ["release"]
    async with serving(config) as another_gateway:
        assert (await page(another_gateway))["items"] == [expected]
    gateway = client._transport.app.state.gateway  # type: ignore[attr-defined]
    await resume(gateway.store, run_id, "release")
    assert (await client.get("/approvals")).content == b'{"items":[],"next_cursor":null}'
    assert "waiting_for" not in (await client.get("/runs")).json()[0]


async def test_pages_go_from_the_longest_waiting_on(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    run_ids = await waiting(client, config, 3)
    first = await page(client, limit=2)
    assert [item["run_id"] for item in first["items"]] == run_ids[:2]
    rest = await page(client, limit=2, cursor=first["next_cursor"])
    assert ([item["run_id"] for item in rest["items"]], rest["next_cursor"]) == (run_ids[2:], None)


async def test_what_cannot_be_asked_is_refused_with_what_to_change(client: httpx.AsyncClient) -> None:
    for limit in ("0", "201", "many", "-1", "9" * 30):
        body = expect_error(await client.get("/approvals", params={"limit": limit}), 422, "ERR-PYOCO-0002")
        assert body["detail"][0]["loc"] == ["query", "limit"]
    listed = (await client.get("/runs", params={"cursor": ""})).json()
    for cursor in ("x", "a" * 600, listed["next_cursor"] or "MTIz"):
        body = expect_error(await client.get("/approvals", params={"cursor": cursor}), 422, "ERR-PYOCO-0002")
        assert body["detail"][0]["loc"] == ["query", "cursor"]
    assert (await client.post("/approvals")).status_code == 405


async def test_a_tenant_sees_its_own_and_another_tenants_cursor_does_not_open(
    nats_server: NatsServer,
) -> None:
    async with as_tenants(nats_server, "ours", "theirs") as (store, [ours, theirs]):
        run_ids = await waiting(ours, store.config, 2)
        assert (await page(theirs))["items"] == []
        found = await page(ours, limit=1)
        assert [item["run_id"] for item in found["items"]] == run_ids[:1]
        refused = await theirs.get("/approvals", params={"cursor": found["next_cursor"]})
        assert refused.status_code == 422


async def test_it_needs_a_key_that_may_read_runs(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "t", scopes=["ops:read"]) as (_, [client]):
        assert (await client.get("/approvals")).status_code == 403
    async with as_tenants(nats_server, "t", scopes=["runs:read"]) as (_, [client]):
        assert (await client.get("/approvals")).status_code == 200
        client.headers.pop("X-API-Key")
        assert (await client.get("/approvals")).status_code == 401


async def test_an_iteration_is_answered_by_its_own_name(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    def review() -> Flow:
        flow: Flow = Flow("review") >> approval("review") % "$ctx.results.review == 'good'"
        return flow

    run_id = await submit(client, "review")
    async with working(config, Flows(review=review)) as worker:
        for name, payload in (("review[0]", "bad"), ("review[1]", "good")):
            await until_handled(worker, run_id)
            [item] = (await page(client))["items"]
            assert (item["task"], item["wait_key"]) == (name, name)
            answer = await client.post(
                f"/executions/{run_id}/nodes/{quote(name, safe='')}/resume",
                json={"resumeKey": name, "payload": payload},
                headers={"X-Idempotency-Key": name},
            )
            assert answer.status_code == 202, answer.text
        await until_handled(worker, run_id)
    ended = (await client.get(f"/runs/{run_id}", params={"include": "records"})).json()
    assert (ended["status"], ended["task_records"]["review"]["output"]) == ("COMPLETED", "good")


async def answered(client: httpx.AsyncClient, run_id: str, **how: str) -> None:
    path, key = f"/executions/{run_id}/nodes/release/resume", {"X-Idempotency-Key": f"answer-{run_id}"}
    answer = await client.post(path, json={"resumeKey": "release", **how}, headers=key)
    assert answer.is_success, answer.text


async def history(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/approvals/history", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_answers_are_listed_with_who_gave_them_and_when_the_latest_first(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    assert await history(client) == {"items": [], "next_cursor": None}
    approved, rejected = await waiting(client, config, 2)
    await answered(client, approved, decision="approve", comment="tests are green")
    await answered(client, rejected, decision="reject", comment="not on a Friday")
    found = (await history(client))["items"]
    assert [(one["run_id"], one["decision"], one["comment"]) for one in found] == [
        (rejected, "reject", "not on a Friday"),
        (approved, "approve", "tests are green"),
    ]
    assert (found[0]["task"], found[0]["flow_name"], found[0]["by"]) == ("release", "release", None)
    assert found[0]["prompt"] == {"version": "v1"}
    assert found[0]["since"] < found[0]["answered_at"]
    first = await history(client, limit=1)
    rest = await history(client, limit=1, cursor=first["next_cursor"])
    assert [one["run_id"] for one in first["items"] + rest["items"]] == [rejected, approved]
    assert rest["next_cursor"] is None
    # A cursor of the open approvals is none of the history.
    assert (await client.get("/approvals", params={"cursor": first["next_cursor"]})).status_code == 422


async def test_the_history_is_the_same_after_a_restart_and_goes_with_its_run(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    [run_id] = await waiting(client, config)
    await answered(client, run_id, decision="reject", comment="no")
    before = await history(client)
    async with serving(config) as other:
        assert await history(other) == before
    await client.post(f"/runs/{run_id}/cancel")  # no worker has it: it ends at once
    assert (await client.delete(f"/jobs/{run_id}", params={"purge": "true"})).is_success
    assert (await history(client))["items"] == []


async def test_the_history_is_of_the_callers_tenant(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "other") as (store, [acme, other]):
        [run_id] = await waiting(acme, store.config)
        await answered(acme, run_id, decision="approve")
        [answer] = (await history(acme))["items"]
        assert answer["by"] is not None
        assert (await history(other))["items"] == []
