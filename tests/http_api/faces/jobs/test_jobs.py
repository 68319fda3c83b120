"""`/jobs`: a job is a run, in this face's words."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import ULID, serving, submit
from tests.http_api.tenants import as_tenants
from tests.worker.stage import Flows, chain, config_on, one_task, waiting, working

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
MEMBERS = [
    "id", "status", "createdAt", "startedAt", "completedAt", "tags", "flow", "error", "progress", "result",
]  # fmt: skip
ODD_IDS = ["nobody", "0c5ff6b3-31a8-4a0c-9d2b-8a7d6d7b3c11", "a.b", "*", ">", "x" * 65, "%20", "ü"]


async def created(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    answer = await client.post("/jobs", json={"parameters": {}} | members)
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()
    return job


async def ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        job: dict[str, Any] = (await client.get(f"/jobs/{job_id}")).json()
        return job if job["completedAt"] else None

    found = await until(look, within_sec=30)
    assert isinstance(found, dict)
    return found


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The error, after checking its shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert ULID.fullmatch(answer.headers["x-request-id"])
    body = answer.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message", "details"]
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    assert isinstance(body["error"]["details"], dict)
    error: dict[str, Any] = body["error"]
    return error


async def test_a_created_job_is_there_and_says_where(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/jobs", json={"parameters": {"input": "data.csv"}, "tags": ["urgent", "test"]}
    )
    assert answer.status_code == 201
    job = answer.json()
    assert list(job) == MEMBERS
    assert answer.headers["location"] == f"/jobs/{job['id']}"
    assert INSTANT.fullmatch(job["createdAt"])
    assert str(uuid.UUID(job["id"])) == job["id"]
    unset = dict.fromkeys(("startedAt", "completedAt", "error", "progress", "result"))
    assert job == job | unset | {"status": "pending", "tags": ["urgent", "test"], "flow": "main"}
    assert (await client.get(f"/jobs/{job['id']}")).json() == job
    assert (await client.head(f"/jobs/{job['id']}")).status_code == 200


async def test_parameters_reach_the_run_unchanged(client: httpx.AsyncClient) -> None:
    parameters = {"n": 1.5, "deep": {"list": [1, None, "ü"]}, "empty": {}, "big": 12345678901234567}
    job = await created(client, parameters=parameters, flow="f", tag="gpu")
    run = (await client.get(f"/runs/{job['id']}")).json()
    assert run["params"] == parameters
    assert (run["flow_name"], run["tag"], run["tags"], job["flow"]) == ("f", "gpu", [], "f")


async def test_the_default_flow_is_a_setting(nats_server: NatsServer) -> None:
    async with serving(config_on(nats_server, jobs_flow="analysis")) as client:
        assert (await created(client))["flow"] == "analysis"


async def test_a_job_that_ran_says_what_came_of_it(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    flows = Flows(main=chain(lambda: 1, lambda: {"answer": 42}), fails=one_task(lambda: 1 / 0))
    async with working(config, flows) as worker:
        good, bad = await created(client), await created(client, flow="fails")
        await worker.run_once(timeout=20.0)
        await worker.run_once(timeout=20.0)
        good, bad = await ended(client, good["id"]), await ended(client, bad["id"])
    assert (good["status"], good["progress"], good["result"]) == ("completed", 100, {"answer": 42})
    assert INSTANT.fullmatch(good["startedAt"])
    assert INSTANT.fullmatch(good["completedAt"])
    assert (bad["status"], bad["result"], bad["error"]) == ("failed", None, "division by zero")
    assert bad["progress"] == 0
    listed = (await client.get("/jobs")).json()
    assert listed == {"jobs": [bad, good]}


async def test_progress_is_the_part_of_tasks_that_are_over(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    async with working(config, Flows(main=chain(lambda: 1, waiting(begun, go_on)))) as worker:
        job = await created(client)
        performing = asyncio.create_task(worker.run_once(timeout=20.0))

        async def half() -> bool:
            now = (await client.get(f"/jobs/{job['id']}")).json()
            return bool(now["status"] == "running" and now["progress"] == 50)

        await until(half)
        go_on.set()
        await performing


async def test_a_job_that_was_canceled_keeps_the_progress_it_had(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    async with working(config, Flows(main=chain(lambda: 1, waiting(begun, go_on)))) as worker:
        job = await created(client)
        performing = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(begun.is_set)
        assert (await client.delete(f"/jobs/{job['id']}")).status_code == 204
        go_on.set()
        await performing
        now = await ended(client, job["id"])
        assert (now["status"], now["progress"]) == ("canceled", 50)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "MALFORMED_JSON"),
        (b"{", 400, "MALFORMED_JSON"),
        (b'{"parameters":{},"parameters":{}}', 400, "MALFORMED_JSON"),
        (b'{"parameters":{"a":1,"a":2}}', 400, "MALFORMED_JSON"),
        (b'{"parameters":{"a":NaN}}', 400, "MALFORMED_JSON"),
        (b'{"parameters":{},"tags":["\xff"]}', 400, "MALFORMED_JSON"),
        (b"[]", 422, "INVALID_REQUEST"),
        (b"{}", 422, "INVALID_REQUEST"),
        (b'{"parameters":[]}', 422, "INVALID_REQUEST"),
        (b'{"parameters":null}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"tags":null}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"tags":"urgent"}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"tags":[1]}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"tags":[""]}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"tags":["a\\u0000b"]}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"flow":""}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"flow":7}', 422, "INVALID_REQUEST"),
        (b'{"parameters":{},"tag":"a.b"}', 422, "INVALID_REQUEST"),
        (json.dumps({"parameters": {}, "tags": ["x" * 65]}).encode(), 422, "INVALID_REQUEST"),
        (
            json.dumps({"parameters": {}, "tags": [str(n) for n in range(33)]}).encode(),
            422,
            "INVALID_REQUEST",
        ),
        (json.dumps({"parameters": {"x": "y" * 300_000}}).encode(), 413, "TOO_LARGE"),
    ],
)
async def test_a_body_that_cannot_be_accepted(
    client: httpx.AsyncClient, body: bytes, status: int, code: str
) -> None:
    answer = await client.post("/jobs", content=body, headers={"Content-Type": "application/json"})
    refused(answer, status, code)
    assert (await client.get("/jobs")).json() == {"jobs": []}


async def test_what_is_sent_must_say_that_it_is_json(client: httpx.AsyncClient) -> None:
    body = b'{"parameters":{}}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = await client.post("/jobs", content=body, headers={"Content-Type": kind})
        refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.job+json"):
        answer = await client.post("/jobs", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 201


async def test_methods_and_paths_that_are_not_served(client: httpx.AsyncClient) -> None:
    answer = await client.put("/jobs")
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert "POST" in answer.headers["allow"] or "GET" in answer.headers["allow"]
    refused(await client.get("/jobs/x/nothing"), 404, "NOT_FOUND")
    problem = await client.get("/jobs/nobody", headers={"Accept": "application/problem+json"})
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["title"] == "JOB_NOT_FOUND"


@pytest.mark.parametrize("job_id", ODD_IDS)
async def test_an_unknown_job_is_not_found_and_may_be_deleted(client: httpx.AsyncClient, job_id: str) -> None:
    refused(await client.get(f"/jobs/{job_id}"), 404, "JOB_NOT_FOUND")
    refused(await client.get(f"/jobs/{job_id}/tags"), 404, "JOB_NOT_FOUND")
    refused(await client.post(f"/jobs/{job_id}/tags", json={"tag": "x"}), 404, "JOB_NOT_FOUND")
    refused(await client.delete(f"/jobs/{job_id}/tags/x"), 404, "JOB_NOT_FOUND")
    for query in ("", "?purge=true"):
        answer = await client.delete(f"/jobs/{job_id}{query}")
        assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("job_id", ["a%2Fb", "%2f", "..%2F..", "a%2Ftags", "a%2Flogs"])
async def test_an_id_with_a_slash_in_it_is_an_unknown_job(client: httpx.AsyncClient, job_id: str) -> None:
    refused(await client.get(f"/jobs/{job_id}"), 404, "JOB_NOT_FOUND")
    for query in ("", "?purge=true"):
        answer = await client.delete(f"/jobs/{job_id}{query}")
        assert (answer.status_code, answer.content) == (204, b"")


async def test_a_deeper_address_is_not_an_id(client: httpx.AsyncClient) -> None:
    refused(await client.delete("/jobs/a/b"), 404, "NOT_FOUND")
    refused(await client.delete("/jobs/a/b%2Fc"), 404, "NOT_FOUND")
    refused(await client.delete("/jobs/a/logs"), 405, "METHOD_NOT_ALLOWED")


async def test_a_pending_job_is_cancelled_without_a_worker_and_never_executed(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    executed: list[int] = []
    job = await created(client)
    for _ in range(2):
        answer = await client.delete(f"/jobs/{job['id']}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert (await client.get(f"/jobs/{job['id']}")).json()["status"] == "canceled"
    async with working(config, Flows(main=one_task(lambda: executed.append(1)))) as worker:
        await worker.run_once(timeout=20.0)
        assert executed == []
    assert (await client.get(f"/jobs/{job['id']}")).json()["status"] == "canceled"


async def test_a_running_job_reads_running_until_it_has_stopped(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    async with working(config, Flows(main=one_task(waiting(begun, go_on)))) as worker:
        job = await created(client)
        performing = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(begun.is_set)
        assert (await client.delete(f"/jobs/{job['id']}")).status_code == 204
        assert (await client.get(f"/jobs/{job['id']}")).json()["status"] == "running"
        assert [one["id"] for one in (await client.get("/jobs?status=running")).json()["jobs"]] == [job["id"]]
        refused(await client.delete(f"/jobs/{job['id']}?purge=true"), 409, "JOB_NOT_TERMINAL")
        go_on.set()
        await performing
    assert (await ended(client, job["id"]))["status"] == "canceled"


async def test_a_purged_job_is_gone_on_every_face(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    large = "x" * 100_000
    async with working(config, Flows(main=one_task(lambda: large))) as worker:
        job = await created(client, tags=["t"])
        await worker.run_once(timeout=20.0)
        await ended(client, job["id"])
    refused(await client.delete(f"/jobs/{job['id']}?purge=perhaps"), 422, "INVALID_REQUEST")
    assert (await client.delete(f"/jobs/{job['id']}?purge=false")).status_code == 204
    assert (await client.get(f"/jobs/{job['id']}")).json()["status"] == "completed"
    for _ in range(2):
        assert (await client.delete(f"/jobs/{job['id']}?purge=true")).status_code == 204
    refused(await client.get(f"/jobs/{job['id']}"), 404, "JOB_NOT_FOUND")
    assert (await client.get(f"/runs/{job['id']}")).status_code == 404
    assert (await client.get("/jobs?tag=t")).json() == {"jobs": []}
    assert (await client.get("/runs")).json() == []
    store = await Store.connect(config, name="test")
    assert await store.logs.entries(job["id"]) == []
    assert await store.results.objects.list() == []
    await store.close()


async def test_pages_name_every_job_once_newest_first(client: httpx.AsyncClient) -> None:
    made = [(await created(client, tags=[f"n{n % 2}"]))["id"] for n in range(7)]
    seen: list[str] = []
    query = "limit=3"
    while True:
        page = (await client.get(f"/jobs?{query}")).json()
        seen += [job["id"] for job in page["jobs"]]
        # Somebody works meanwhile: what was not shown yet is not moved by that.
        await client.post(f"/jobs/{made[0]}/tags", json={"tag": f"t{len(seen)}"})
        if "nextToken" not in page:
            break
        query = f"limit=3&nextToken={page['nextToken']}"
    assert seen == made[::-1]
    odd = (await client.get("/jobs?tag=n1&limit=2")).json()
    rest = (await client.get(f"/jobs?tag=n1&limit=2&nextToken={odd['nextToken']}")).json()
    assert [job["id"] for job in odd["jobs"] + rest["jobs"]] == made[5::-2]
    assert list(rest) == ["jobs"]


async def test_a_token_is_good_for_its_own_list_only(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await created(client, tags=["a"])
    token = (await client.get("/jobs?limit=1")).json()["nextToken"]
    for query in ("tag=a", "status=pending", "tag=a&status=pending"):
        refused(await client.get(f"/jobs?{query}&nextToken={token}"), 400, "INVALID_TOKEN")
    for forged in ("", "x", token[:-2] + "AA", "é"):
        refused(await client.get("/jobs", params={"nextToken": forged}), 400, "INVALID_TOKEN")
    assert len((await client.get(f"/jobs?limit=200&nextToken={token}")).json()["jobs"]) == 2


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=-1", "limit=1.5", "limit=", "status=done", "status=PENDING", "tag="],
)
async def test_lists_that_cannot_be_asked_for(client: httpx.AsyncClient, query: str) -> None:
    refused(await client.get(f"/jobs?{query}"), 422, "INVALID_REQUEST")


async def test_runs_are_jobs_and_jobs_are_runs(client: httpx.AsyncClient) -> None:
    plain = await submit(client, "noop", tag="gpu")
    tagged = await submit(client, "noop", tags=["x", "y"])
    job = await created(client)
    listed = {one["id"]: one for one in (await client.get("/jobs")).json()["jobs"]}
    assert {key: one["tags"] for key, one in listed.items()} == {
        plain: ["gpu"],
        tagged: ["x", "y"],
        job["id"]: [],
    }
    assert {run["run_id"] for run in (await client.get("/runs")).json()} == set(listed)


async def test_an_idempotency_key_makes_one_job(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    headers = {"Idempotency-Key": "k1"}
    answers = await asyncio.gather(
        *(client.post("/jobs", json={"parameters": {"n": 1}}, headers=headers) for _ in range(5))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == ["", *["true"] * 4]
    job = answers[0].json()
    async with working(config, Flows(main=one_task(lambda: None))) as worker:
        await worker.run_once(timeout=20.0)
    await ended(client, job["id"])
    again = await client.post("/jobs", json={"parameters": {"n": 1}}, headers=headers)
    assert (again.status_code, again.json()) == (201, job)
    assert again.headers["location"] == f"/jobs/{job['id']}"
    other = await client.post("/jobs", json={"parameters": {"n": 2}}, headers=headers)
    refused(other, 409, "IDEMPOTENCY_CONFLICT")
    assert len((await client.get("/jobs")).json()["jobs"]) == 1


async def test_the_correlation_id_is_in_the_events(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    answer = await client.post("/jobs", json={"parameters": {}}, headers={"X-Correlation-Id": "c-1"})
    store = await Store.connect(config, name="test")
    (_, events), *_ = await store.runs.events(answer.json()["id"])
    await store.close()
    assert isinstance(events[0], RunSubmitted)
    assert events[0].correlation_id == "c-1"


async def test_a_tenant_sees_and_changes_its_own_jobs_only(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "one", "two") as (_, (one, two)):
        job = await created(one, tags=["t"])
        refused(await two.get(f"/jobs/{job['id']}"), 404, "JOB_NOT_FOUND")
        refused(await two.post(f"/jobs/{job['id']}/tags", json={"tag": "x"}), 404, "JOB_NOT_FOUND")
        assert (await two.delete(f"/jobs/{job['id']}")).status_code == 204
        assert (await two.get("/jobs?tag=t")).json() == {"jobs": []}
        assert (await one.get("/jobs?tag=t&status=pending")).json() == {"jobs": [job]}


async def test_strangers_are_kept_out(client: httpx.AsyncClient) -> None:
    refused(await client.get("/jobs", headers={"Host": "evil.example"}), 403, "FORBIDDEN")
    answer = await client.post("/jobs", json={"parameters": {}}, headers={"Origin": "http://evil.example"})
    refused(answer, 403, "FORBIDDEN")
    same = await client.post("/jobs", json={"parameters": {}}, headers={"Origin": "http://127.0.0.1"})
    assert same.status_code == 201
