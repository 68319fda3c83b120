"""`/schedules/{schedule_id}` by its answers: read, edit, pause, resume, backfill, occurrences."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.conftest import NatsServer, until
from tests.http_api.serving import expect_error
from tests.http_api.tenants import as_tenants

NONE = "00000000-0000-4000-8000-000000000000"


async def made(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    wanted = {"flow_name": "nightly", "cron": "30 8 * * *", "timezone": "Asia/Tokyo"} | fields
    answer = await client.post("/schedules", json={k: v for k, v in wanted.items() if v is not None})
    assert answer.status_code == 200, answer.text
    schedule: dict[str, Any] = answer.json()
    return schedule


async def path_of(client: httpx.AsyncClient, **fields: Any) -> str:
    return f"/schedules/{(await made(client, **fields))['schedule_id']}"


async def edited(client: httpx.AsyncClient, path: str, **changes: Any) -> dict[str, Any]:
    answer = await client.patch(path, json=changes)
    assert answer.status_code == 200, answer.text
    schedule: dict[str, Any] = answer.json()
    return schedule


async def test_a_schedule_is_created_with_its_policies(client: httpx.AsyncClient) -> None:
    wanted = {
        "name": "Every morning",
        "overlap": "queue_one",
        "catch_up": "all_within",
        "catch_up_within_seconds": 3600.0,
        "planned_at_param": "at",
        "jitter_seconds": 600.0,
    }
    schedule = await made(client, **wanted, end_at="2100-01-01T00:00:00Z", paused=True)
    assert {name: schedule[name] for name in wanted} == wanted
    assert (schedule["status"], schedule["end_at"]) == ("PAUSED", 4_102_444_800.0)
    assert schedule["next_at"] < schedule["next_run_at"] < schedule["next_at"] + 600
    one = (await client.get(f"/schedules/{schedule['schedule_id']}", params={"upcoming": 2})).json()
    assert one == schedule | {"runs": one["runs"], "upcoming": one["upcoming"]}
    assert one["upcoming"] == [schedule["next_at"], schedule["next_at"] + 86_400]
    assert set(one["runs"].values()) == {0}


async def test_a_form_takes_the_same(client: httpx.AsyncClient) -> None:
    flow = b"flow: {graph: a}\ntasks: {a: {use: demo/a}}\n"
    data = {"flow_name": "x", "interval_seconds": "60", "overlap": "skip", "paused": "true", "name": "X"}
    answer = await client.post("/schedules/yaml", files={"workflow": ("flow.yaml", flow)}, data=data)
    assert answer.status_code == 200, answer.text
    schedule = answer.json()
    assert (schedule["overlap"], schedule["status"], schedule["name"]) == ("skip", "PAUSED", "X")
    path = f"/schedules/{schedule['schedule_id']}"
    body = expect_error(await client.patch(path, json={"revision": 1, "params": {}}), 422, "ERR-PYOCO-0002")
    assert body["detail"][0]["loc"][-1] == "params"


@pytest.mark.parametrize(
    ("fields", "place", "sentence"),
    [
        ({"overlap": "never"}, "overlap", "Write one of allow, skip, queue_one, cancel_running."),
        ({"catch_up": "all"}, "catch_up", "Write one of none, last, all_within."),
        ({"catch_up": "all_within"}, "catch_up_within_seconds", "catch_up_within_seconds goes with"),
        ({"catch_up_within_seconds": 5}, "catch_up_within_seconds", "catch_up_within_seconds goes with"),
        (
            {"catch_up": "all_within", "catch_up_within_seconds": -1},
            "catch_up_within_seconds",
            "Write a number of seconds, at most",
        ),
        ({"jitter_seconds": 90_000}, "jitter_seconds", "Write a number of seconds from 0 to 86400."),
        ({"end_at": "2020-01-01T00:00:00Z"}, "end_at", "This instant is over"),
        ({"end_at": "soon"}, "end_at", "Write an instant"),
        ({"name": "a\nb"}, "name", "Write 1 to 128 characters"),
        ({"name": "x" * 129}, "name", "Write 1 to 128 characters"),
        (
            {
                "cron": None,
                "timezone": None,
                "run_at": "2100-01-01T00:00:00Z",
                "end_at": "2101-01-01T00:00:00Z",
            },
            "end_at",
            "end_at goes with interval_seconds or cron: leave it out.",
        ),
    ],
)
async def test_what_does_not_fit_says_what_to_write(
    client: httpx.AsyncClient, fields: dict[str, Any], place: str, sentence: str
) -> None:
    wanted = {"flow_name": "nightly", "cron": "30 8 * * *", "timezone": "Asia/Tokyo"} | fields
    sent = {name: value for name, value in wanted.items() if value is not None}
    answer = await client.post("/schedules", json=sent)
    [problem] = expect_error(answer, 422, "ERR-PYOCO-0002")["detail"]
    assert problem["loc"][-1] == place
    assert problem["msg"].startswith(sentence)


async def test_an_edit_changes_what_was_sent(client: httpx.AsyncClient) -> None:
    path = await path_of(client, jitter_seconds=5, end_at="2100-01-01T00:00:00Z")
    first = await edited(client, path, revision=1, name="Report", overlap="skip")
    assert (first["revision"], first["name"], first["overlap"]) == (2, "Report", "skip")
    assert (first["cron"], first["timezone"], first["jitter_seconds"]) == ("30 8 * * *", "Asia/Tokyo", 5.0)
    later = await edited(client, path, revision=2, timezone="UTC", end_at=None, name=None)
    assert (later["cron"], later["timezone"], later["end_at"]) == ("30 8 * * *", "UTC", None)
    assert (later["name"], later["next_at"] % 86_400) == (None, 8.5 * 3600)
    other = await edited(client, path, revision=3, interval_seconds=60)
    assert (other["schedule_type"], other["cron"], other["timezone"]) == ("interval", None, None)
    assert (other["jitter_seconds"], other["start_at"]) == (5.0, pytest.approx(time.time() + 60, abs=30))
    policies = {"catch_up": "all_within", "catch_up_within_seconds": 60}
    caught = await edited(client, path, revision=4, **policies)
    assert (caught["catch_up_within_seconds"], caught["overlap"]) == (60.0, "skip")
    assert (await edited(client, path, revision=5, catch_up="last"))["catch_up_within_seconds"] is None
    run = await edited(client, path, revision=6, params={"x": 1}, tag="gpu", tags=["a", "b"])
    assert run["tag"] == "gpu"
    submitted = (await client.post(f"{path}/run")).json()["run_id"]
    shown = (await client.get(f"/runs/{submitted}")).json()
    assert (shown["params"], shown["tag"], shown["tags"]) == ({"x": 1}, "gpu", ["a", "b"])


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "x"}, 422),
        ({"revision": 2, "name": "x"}, 409),
        ({"revision": 1, "cron": "61 * * * *"}, 422),
        ({"revision": 1, "cron": None}, 422),
        ({"revision": 1, "cron": "0 0 30 2 *"}, 422),
        ({"revision": 1, "interval_seconds": 60, "timezone": "UTC"}, 422),
        ({"revision": 1, "tag": "a.b"}, 422),
        ({"revision": "1"}, 422),
    ],
)
async def test_a_refused_edit_changes_nothing(
    client: httpx.AsyncClient, changes: dict[str, Any], status: int
) -> None:
    path = await path_of(client)
    before = (await client.get(path)).json()
    refused = await client.patch(path, json=changes)
    assert refused.status_code == status
    assert refused.json().get("revision") == (1 if status == 409 else None)
    assert (await client.get(path)).json() == before


async def test_a_paused_schedule_is_listed_as_such_and_goes_on(client: httpx.AsyncClient) -> None:
    path = await path_of(client, cron=None, timezone=None, interval_seconds=0.1)
    paused = (await client.post(f"{path}/pause")).json()
    assert (paused["status"], (await client.post(f"{path}/pause")).json()["revision"]) == ("PAUSED", 2)
    await until(lambda: time.time() > paused["next_at"] + 0.3)
    started = len((await client.get(f"{path}/runs", params={"limit": 200})).json())
    assert [one["status"] for one in (await client.get("/schedules")).json()] == ["PAUSED"]
    submitted = (await client.post(f"{path}/run")).json()
    assert submitted["status"] == "PENDING", "a person may still start one"
    assert len((await client.get(f"{path}/runs", params={"limit": 200})).json()) == started + 1
    assert (await client.post(f"{path}/resume")).json()["status"] == "ACTIVE"

    async def goes_on() -> bool:
        return len((await client.get(f"{path}/runs", params={"limit": 200})).json()) > started + 1

    await until(goes_on)
    entries = (await client.get(f"{path}/occurrences", params={"limit": 200})).json()["occurrences"]
    assert "paused" in {entry["reason"] for entry in entries}


async def test_occurrences_are_listed_in_pages(client: httpx.AsyncClient) -> None:
    path = await path_of(client, cron=None, timezone=None, interval_seconds=0.1)

    async def several() -> bool:
        return len((await client.get(f"{path}/occurrences")).json()["occurrences"]) >= 4

    await until(several)
    await client.post(f"{path}/pause")
    everything = (await client.get(f"{path}/occurrences", params={"limit": 200})).json()
    assert everything["next_before"] is None
    found: list[dict[str, Any]] = []
    before = None
    while before is not None or not found:
        page = await client.get(
            f"{path}/occurrences", params={"limit": 3} | ({"before": before} if before else {})
        )
        found += page.json()["occurrences"]
        before = page.json()["next_before"]
    assert found == everything["occurrences"]
    runs = {run["run_id"] for run in (await client.get(f"{path}/runs", params={"limit": 200})).json()}
    assert {entry["run_id"] for entry in found if entry["outcome"] == "started"} == runs
    shown = (await client.get(path)).json()
    assert shown["dispatch_count"] == len(runs)
    assert shown["runs"]["PENDING"] == len(runs)


async def test_a_backfill_shows_its_progress(client: httpx.AsyncClient) -> None:
    start = "2026-01-01T00:00:00Z"
    path = await path_of(client, cron=None, timezone=None, interval_seconds=3600, start_at=start)
    wanted = {"from": start, "to": "2026-01-01T03:00:00Z", "max_running": 10}
    begun = (await client.post(f"{path}/backfill", json=wanted)).json()["backfill"]
    assert (begun["state"], begun["total"], begun["started"]) == ("RUNNING", 4, 0)

    async def ended() -> bool:
        return bool((await client.get(path)).json()["backfill"]["state"] == "COMPLETED")

    await until(ended)
    assert (await client.get(path)).json()["backfill"]["started"] == 4
    again = await client.post(f"{path}/backfill", json=wanted | {"to": "2026-01-01T04:00:00+01:00"})
    assert again.status_code == 200
    await until(ended)
    backfill = (await client.get(path)).json()["backfill"]
    assert (backfill["started"], backfill["existing"]) == (0, 4)
    assert len((await client.get(f"{path}/runs")).json()) == 4
    assert (await client.delete(f"{path}/backfill")).json()["backfill"]["state"] == "COMPLETED"
    for wrong in ({"from": "x"}, {"to": "2100-01-01T00:00:00Z"}, {"max_running": 0}, {"from": None}):
        refused = await client.post(f"{path}/backfill", json=wanted | wrong)
        expect_error(refused, 422, "ERR-PYOCO-0002")


async def test_a_schedule_of_another_tenant_is_not_there(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "other") as (_, [acme, other]):
        path = await path_of(acme)
        for one in (path, f"/schedules/{NONE}", "/schedules/*"):
            answers = [
                await other.get(one),
                await other.patch(one, json={"revision": 1, "name": "x"}),
                await other.post(f"{one}/pause"),
                await other.post(f"{one}/resume"),
                await other.post(
                    f"{one}/backfill", json={"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
                ),
                await other.delete(f"{one}/backfill"),
                await other.get(f"{one}/occurrences"),
            ]
            assert {answer.status_code for answer in answers} == {404}
        assert (await acme.get(path)).json()["revision"] == 1


async def test_changes_need_the_scope_to_write(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", scopes=("runs:read",)) as (_, [reader]):
        for path in ("pause", "resume", "backfill"):
            expect_error(await reader.post(f"/schedules/{NONE}/{path}"), 403, None)
        expect_error(await reader.patch(f"/schedules/{NONE}"), 403, None)
        expect_error(await reader.get(f"/schedules/{NONE}"), 404, None)
