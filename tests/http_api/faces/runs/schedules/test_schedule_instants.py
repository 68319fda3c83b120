"""`/schedules`: the next instants, a preview of them, the status of the last run, and a run between them."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import httpx
import pytest
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations import schedules
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.runs.submit import submit
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.interrupted import interrupted
from tests.http_api.serving import expect_error
from tests.worker.stage import Flows, config_on, lawful, one_task, working

FAR = "2100-01-31T08:00:00+09:00"
FAR_AT = 4105033200.0


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, housekeeping_interval_sec=0.1)


async def test_a_list_has_as_many_next_instants_as_it_is_asked_for(client: httpx.AsyncClient) -> None:
    daily = {"flow_name": "a", "cron": "30 8 * * *", "timezone": "Asia/Tokyo"}
    for body in (daily, {"flow_name": "a", "interval_seconds": 60}, {"flow_name": "a", "run_at": FAR}):
        assert (await client.post("/schedules", json=body)).status_code == 200
    assert all("upcoming" not in one for one in (await client.get("/schedules")).json())
    listed = (await client.get("/schedules", params={"upcoming": 5})).json()
    once, interval, cron = (one["upcoming"] for one in listed)
    assert once == [FAR_AT]
    assert [later - first for first, later in pairwise(interval)] == [60.0] * 4
    assert [later - first for first, later in pairwise(cron)] == [86_400.0] * 4
    assert [one[0] for one in (once, interval, cron)] == [one["next_at"] for one in listed]
    expect_error(await client.get("/schedules", params={"upcoming": 11}), 422, "ERR-PYOCO-0002")


async def test_a_preview_shows_instants_or_what_to_write_instead(client: httpx.AsyncClient) -> None:
    cron = {"cron": "0 9 * * mon", "timezone": "Europe/Berlin"}
    instants = (await client.get("/schedules/preview", params=cron)).json()["upcoming"]
    assert len(instants) == 5
    zone = ZoneInfo("Europe/Berlin")
    assert {datetime.fromtimestamp(one, zone).strftime("%a %H:%M") for one in instants} == {"Mon 09:00"}
    few = await client.get("/schedules/preview", params={"interval_seconds": "60", "upcoming": "2"})
    assert len(few.json()["upcoming"]) == 2
    refused = expect_error(
        await client.get("/schedules/preview", params={"cron": "61 * * * *"}), 422, "ERR-PYOCO-0002"
    )
    assert "The minute is not valid" in refused["detail"][0]["msg"]
    none = await client.get("/schedules/preview", params={"cron": "0 0 30 2 *"})
    assert none.json() == {"upcoming": []}
    assert (await client.get("/schedules")).json() == []


async def test_the_last_run_is_listed_with_its_status(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    body = {"flow_name": "greet", "params": {"who": "you"}, "interval_seconds": 0.1}
    made = (await client.post("/schedules", json=body)).json()
    assert (made["last_run_id"], made["last_status"]) == (None, None)
    async with working(config, Flows(greet=one_task(lambda who: f"hello {who}"))) as worker:
        await until(lambda: worker.run_once(timeout=1))

    async def is_listed() -> bool:
        [listed] = (await client.get("/schedules")).json()
        runs = {run["run_id"]: run for run in (await client.get("/runs")).json()}
        return bool(listed["last_status"] == runs[listed["last_run_id"]]["status"])

    await until(is_listed)
    await client.delete(f"/schedules/{made['schedule_id']}")


async def test_one_more_run_has_what_the_schedule_gives_and_moves_no_instant(
    client: httpx.AsyncClient, store: Store
) -> None:
    body = {"flow_name": "greet", "params": {"who": "you"}, "tag": "gpu", "tags": ["gpu", "nightly"]}
    made = (await client.post("/schedules", json=body | {"run_at": FAR})).json()
    path = f"/schedules/{made['schedule_id']}"
    first = (await client.post(f"{path}/run", headers={"Idempotency-Key": "k"})).json()
    again = await client.post(f"{path}/run", headers={"Idempotency-Key": "k"})
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (first, "true")
    other = (await client.post(f"{path}/run")).json()
    assert other["run_id"] != first["run_id"]
    stored = await lawful(store, first["run_id"])
    assert (stored.flow_name, stored.params, stored.tag) == ("greet", {"who": "you"}, "gpu")
    assert stored.tags == ["gpu", "nightly"]
    assert (await client.get(f"/runs/{first['run_id']}")).json()["schedule_id"] == made["schedule_id"]
    runs = {run["run_id"] for run in (await client.get(f"{path}/runs")).json()}
    assert runs == {first["run_id"], other["run_id"]}
    [listed] = (await client.get("/schedules")).json()
    assert (listed["next_at"], listed["dispatch_count"]) == (FAR_AT, 0)


async def test_a_repetition_gets_its_run_also_when_the_schedule_is_deleted(client: httpx.AsyncClient) -> None:
    made = (await client.post("/schedules", json={"flow_name": "a", "run_at": FAR})).json()
    path = f"/schedules/{made['schedule_id']}"
    first = await client.post(f"{path}/run", headers={"Idempotency-Key": "k"})
    assert (await client.delete(path)).status_code == 200
    again = await client.post(f"{path}/run", headers={"Idempotency-Key": "k"})
    assert (again.json(), again.headers.get("Idempotency-Replayed")) == (first.json(), "true")
    expect_error(await client.post(f"{path}/run", headers={"Idempotency-Key": "other"}), 404, None)


async def test_a_repetition_gets_the_run_of_a_gateway_that_ended_though_the_schedule_is_deleted(
    client: httpx.AsyncClient, store: Store
) -> None:
    made = (await client.post("/schedules", json={"flow_name": "a", "run_at": FAR})).json()
    path = f"/schedules/{made['schedule_id']}"
    submitted: list[str] = []

    async def have_effect(reservation: Reservation) -> None:
        submission = await schedules.submission_now(
            store, made["schedule_id"], tenant_id=None, api_key_id=None
        )
        submission = replace(submission, run_id=reservation.resource_id)
        stored = await submit(store, submission, commit_id=reservation.command_id)
        submitted.append(stored.run.run_id)

    await interrupted(store, f"{path}/run", "k", b"{}", have_effect)
    assert (await client.delete(path)).status_code == 200
    again = await client.post(f"{path}/run", headers={"Idempotency-Key": "k"})
    assert (again.status_code, [again.json().get("run_id")]) == (200, submitted)
    assert len((await client.get("/runs")).json()) == 1
    await lawful(store, submitted[0])


async def test_a_repetition_without_a_run_is_refused_when_the_schedule_is_deleted(
    client: httpx.AsyncClient, store: Store
) -> None:
    made = (await client.post("/schedules", json={"flow_name": "a", "run_at": FAR})).json()
    path = f"/schedules/{made['schedule_id']}"

    async def have_none(reservation: Reservation) -> None:
        """The gateway ended before."""

    await interrupted(store, f"{path}/run", "k", b"{}", have_none)
    assert (await client.delete(path)).status_code == 200
    expect_error(await client.post(f"{path}/run", headers={"Idempotency-Key": "k"}), 404, None)


async def test_a_schedule_that_has_ended_or_is_unknown_is_not_run(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await client.post("/schedules", json={"flow_name": "a", "run_at": FAR})).json()
    missing = "/schedules/00000000-0000-4000-8000-000000000000/run"
    expect_error(await client.post(missing), 404, None)

    async def none(_id: str) -> None:
        return None

    monkeypatch.setattr(type(store.schedules), "begins_with", lambda _self, schedule_id: none(schedule_id))
    refused = expect_error(await client.post(f"/schedules/{made['schedule_id']}/run"), 409, None)
    assert "has ended" in refused["message"]


def test_remembered_instants_have_a_bound() -> None:
    assert schedules._instants_after.cache_info().maxsize == schedules.UPCOMING_KEPT_MAX
