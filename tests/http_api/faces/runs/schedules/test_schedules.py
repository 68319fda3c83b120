"""`/schedules` by its exact answers: what is made, listed, refused and deleted, and whose it is."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations import schedules
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import expect_error
from tests.http_api.tenants import as_tenants
from tests.worker.stage import config_on, jobs_queued, lawful

WORKFLOW = b"flow:\n  graph: a\n  defaults: {x: 1}\ntasks:\n  a: {use: demo/a}\n"
FAR = "2100-01-31T08:00:00+09:00"
FAR_AT = 4105033200.0
NOBODYS = "00000000-0000-4000-8000-000000000000"
ONE_OF = "Give exactly one of run_at, interval_seconds and cron."


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, housekeeping_interval_sec=0.1)


async def post(client: httpx.AsyncClient, workflow: bytes = WORKFLOW, /, **fields: str) -> httpx.Response:
    file = {"workflow": ("flow.yaml", workflow, "application/x-yaml")}
    return await client.post("/schedules/yaml", files=file, data={"flow_name": "nightly"} | fields)


async def made(client: httpx.AsyncClient, **fields: str) -> dict[str, Any]:
    answer = await post(client, **fields)
    assert answer.status_code == 200, answer.text
    schedule: dict[str, Any] = answer.json()
    return schedule


async def test_a_schedule_as_it_is_answered_and_listed(client: httpx.AsyncClient) -> None:
    before = time.time()
    schedule = await made(client, run_at=FAR, tag="cpu")
    assert before <= schedule["created_at"] <= time.time()
    assert schedule == {
        "schedule_id": schedule["schedule_id"],
        "name": None,
        "flow_name": "nightly",
        "tag": "cpu",
        "status": "ACTIVE",
        "revision": 1,
        "schedule_type": "once",
        "workflow_yaml_sha256": hashlib.sha256(WORKFLOW).hexdigest(),
        "workflow_yaml_bytes": len(WORKFLOW),
        "tenant_id": None,
        "api_key_id": None,
        "created_at": schedule["created_at"],
        "updated_at": schedule["created_at"],
        "run_at": FAR_AT,
        "interval_seconds": None,
        "start_at": None,
        "cron": None,
        "timezone": None,
        "end_at": None,
        "jitter_seconds": 0.0,
        "overlap": "allow",
        "catch_up": "last",
        "catch_up_within_seconds": None,
        "planned_at_param": None,
        "paused_at": None,
        "next_run_at": FAR_AT,
        "next_at": FAR_AT,
        "queued_at": None,
        "last_at": None,
        "last_submitted_at": None,
        "last_run_id": None,
        "last_status": None,
        "dispatch_count": 0,
        "skip_count": 0,
        "last_error": None,
        "backfill": None,
    }
    assert (await client.get("/schedules")).json() == [schedule]
    assert (await client.get(f"/schedules/{schedule['schedule_id']}/runs")).json() == []


async def test_intervals_begin_after_one_or_when_they_are_told(client: httpx.AsyncClient) -> None:
    soon = await made(client, interval_seconds="3600")
    assert (soon["schedule_type"], soon["interval_seconds"], soon["tag"]) == ("interval", 3600.0, "default")
    assert soon["next_at"] == soon["start_at"] == pytest.approx(soon["created_at"] + 3600, abs=0.001)
    told = await made(client, interval_seconds="3600", start_at=FAR)
    assert told["next_at"] == told["start_at"] == FAR_AT
    past = await made(client, interval_seconds="3600", start_at="2020-01-01T00:10:00Z", run_at="", cron=" ")
    assert past["next_at"] % 3600 == 600
    assert past["created_at"] < past["next_at"] <= past["created_at"] + 3600
    listed = (await client.get("/schedules")).json()
    assert [one["schedule_id"] for one in listed] == [one["schedule_id"] for one in (past, told, soon)]


async def test_cron_is_by_the_clock_of_its_zone(client: httpx.AsyncClient) -> None:
    schedule = await made(client, cron="30  8 * * *", timezone="Asia/Tokyo")
    assert (schedule["schedule_type"], schedule["cron"]) == ("cron", "30 8 * * *")
    assert schedule["timezone"] == "Asia/Tokyo"
    assert schedule["next_at"] % 86_400 == (8.5 + 24 - 9) * 3600
    assert (await made(client, cron="30 8 * * *"))["timezone"] == "UTC"


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({}, [("run_at", ONE_OF), ("interval_seconds", ONE_OF), ("cron", ONE_OF)]),
        ({"run_at": FAR, "cron": "* * * * *"}, [("run_at", ONE_OF), ("cron", ONE_OF)]),
        (
            {"run_at": FAR, "start_at": FAR},
            [("start_at", "start_at goes with interval_seconds or cron: leave it out.")],
        ),
        (
            {"interval_seconds": "5", "timezone": "UTC"},
            [("timezone", "timezone goes with cron: leave it out.")],
        ),
        ({"run_at": "2100-01-31T08:00:00"}, [("run_at", "Write an instant in ISO 8601 with its offset")]),
        ({"run_at": "tomorrow"}, [("run_at", "Write an instant in ISO 8601 with its offset")]),
        ({"run_at": "2020-01-31T08:00:00Z"}, [("run_at", "This instant is over")]),
        ({"interval_seconds": "0"}, [("interval_seconds", "Write a number of seconds from 0.1 to")]),
        ({"interval_seconds": "nan"}, [("interval_seconds", "Write a number of seconds from 0.1 to")]),
        ({"interval_seconds": "1e9"}, [("interval_seconds", "Write a number of seconds from 0.1 to")]),
        (
            {"interval_seconds": "often", "start_at": "then"},
            [("interval_seconds", "Write a number"), ("start_at", "Write an instant")],
        ),
        ({"cron": "@daily"}, [("cron", "Write five fields")]),
        ({"cron": "0 0 * * fri-"}, [("cron", "The day of week is not valid. Its values are 0 to 7")]),
        ({"cron": "0 0 30 2 *"}, [("cron", "No instant fits this")]),
        (
            {"cron": "99 * * * *", "timezone": "Nowhere"},
            [("cron", "The minute is not valid. Its"), ("timezone", "Write the name of a time zone")],
        ),
        ({"run_at": FAR, "flow_name": " "}, [("flow_name", "flow_name must have")]),
        ({"run_at": FAR, "tag": "a.b"}, [("tag", "must match")]),
        ({"run_at": FAR, "params": "{}"}, [("params", "The parameters of the run")]),
    ],
)
async def test_every_wrong_field_is_told_what_to_write(
    client: httpx.AsyncClient, fields: dict[str, str], problems: list[tuple[str, str]]
) -> None:
    body = expect_error(await post(client, **fields), 422, "ERR-PYOCO-0002")
    assert [one["loc"] for one in body["detail"]] == [["body", name] for name, _ in problems]
    for one, (_, sentence) in zip(body["detail"], problems, strict=True):
        assert one["msg"].startswith(sentence)
    assert (await client.get("/schedules")).json() == []


async def test_a_field_given_twice_and_a_workflow_that_is_none(client: httpx.AsyncClient) -> None:
    file = {"workflow": ("flow.yaml", WORKFLOW)}
    twice = await client.post(
        "/schedules/yaml", files=file, data={"flow_name": "x", "cron": ["* * * * *", "0 * * * *"]}
    )
    assert expect_error(twice, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["body", "cron"]
    broken = expect_error(await post(client, b"flow: {graph: b}", run_at=FAR), 422, "ERR-PYOCO-0002")
    assert broken["detail"][0]["line"] == 1
    expect_error(await post(client, b"#" * 600_000, run_at=FAR), 413, "ERR-PYOCO-0016")
    missing = await client.post("/schedules/yaml", data={"flow_name": "x", "run_at": FAR})
    expect_error(missing, 422, "ERR-PYOCO-0002")


async def test_a_schedule_that_was_deleted_is_gone(client: httpx.AsyncClient) -> None:
    schedule_id = (await made(client, run_at=FAR))["schedule_id"]
    answer = await client.delete(f"/schedules/{schedule_id}")
    assert (answer.status_code, answer.json()) == (200, {"schedule_id": schedule_id, "deleted": True})
    assert (await client.get("/schedules")).json() == []
    for missing in (schedule_id, NOBODYS, "a.b", "*", f"{schedule_id}.run"):
        expect_error(await client.delete(f"/schedules/{missing}"), 404, None)
        expect_error(await client.get(f"/schedules/{missing}/runs"), 404, None)


async def test_its_runs_are_found_and_say_whose_they_are(client: httpx.AsyncClient, store: Store) -> None:
    schedule_id = (await made(client, interval_seconds="0.1", tag="cpu"))["schedule_id"]
    path = f"/schedules/{schedule_id}/runs"

    async def two() -> bool:
        return len((await client.get(path)).json()) >= 2

    await until(two)
    assert {run["schedule_id"] for run in (await client.get(path)).json()} == {schedule_id}
    assert (await client.delete(f"/schedules/{schedule_id}")).status_code == 200
    runs = await client.get("/runs")
    shown = (await client.get(f"/runs/{runs.json()[0]['run_id']}")).json()
    assert (shown["schedule_id"], shown["flow_name"], shown["tag"]) == (schedule_id, "nightly", "cpu")
    assert (shown["status"], shown["params"]) == ("PENDING", {"x": 1})
    stored = await lawful(store, shown["run_id"])
    assert stored.workflow_yaml_sha256 == hashlib.sha256(WORKFLOW).hexdigest()
    assert await jobs_queued(store) == len(runs.json())


async def test_its_runs_in_detail_and_a_few_of_them(client: httpx.AsyncClient) -> None:
    schedule_id = (await made(client, interval_seconds="0.1"))["schedule_id"]
    path = f"/schedules/{schedule_id}/runs"

    async def two() -> bool:
        return len((await client.get(path)).json()) >= 2

    await until(two)
    [one] = (await client.get(path, params={"limit": 1, "include": "records"})).json()
    assert (one["schedule_id"], one["task_records"]) == (schedule_id, {})
    for wrong in ({"limit": "0"}, {"limit": "x"}, {"include": "x"}):
        expect_error(await client.get(path, params=wrong), 422, "ERR-PYOCO-0017")


async def test_there_may_be_so_many(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "ACTIVE_MAX", 1)
    await made(client, run_at=FAR)
    assert "Delete one" in expect_error(await post(client, run_at=FAR), 409, None)["detail"]


async def test_another_tenants_schedule_is_not_there(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "other") as (_, [acme, other]):
        schedule = await made(acme, run_at=FAR)
        assert schedule["tenant_id"] == "acme"
        assert schedule["api_key_id"]
        path = f"/schedules/{schedule['schedule_id']}"
        assert (await other.get("/schedules")).json() == []
        foreign = [await other.delete(path), await other.get(f"{path}/runs")]
        missing = [await other.delete(f"/schedules/{NOBODYS}"), await other.get(f"/schedules/{NOBODYS}/runs")]
        for one, two in zip(foreign, missing, strict=True):
            expect_error(one, 404, None)
            assert one.text == two.text
        assert (await acme.get("/schedules")).json() == [schedule]
        assert (await acme.delete(path)).status_code == 200


async def test_looking_and_making_need_their_scopes(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", scopes=("runs:read",)) as (_, [reader]):
        assert (await reader.get("/schedules")).json() == []
        assert "runs:write" in expect_error(await post(reader, run_at=FAR), 403, None)["detail"]
        expect_error(await reader.delete(f"/schedules/{NOBODYS}"), 403, None)
