"""`POST /schedules`: flows that workers know by name, run at their time with parameters of their own."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.runs.schedules.test_schedules import FAR, FAR_AT, ONE_OF
from tests.http_api.serving import expect_error
from tests.worker.stage import Flows, config_on, lawful, one_task, working


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, housekeeping_interval_sec=0.1)


async def test_a_flow_is_run_at_its_time_with_its_parameters(
    client: httpx.AsyncClient, config: NatsBackendConfig, store: Store
) -> None:
    body = {"flow_name": "greet", "params": {"who": "you"}, "tags": ["default", "nightly"]}
    made = (await client.post("/schedules", json=body | {"interval_seconds": 0.1})).json()
    assert (made["flow_name"], made["tag"], made["schedule_type"]) == ("greet", "default", "interval")
    assert (made["workflow_yaml_sha256"], made["workflow_yaml_bytes"]) == (None, None)
    path = f"/schedules/{made['schedule_id']}/runs"

    async with working(config, Flows(greet=one_task(lambda who: f"hello {who}"))) as worker:
        run_id = await until(lambda: worker.run_once(timeout=1))
    assert run_id in [run["run_id"] for run in (await client.get(path)).json()]
    await client.delete(f"/schedules/{made['schedule_id']}")
    stored = await lawful(store, str(run_id))
    assert (stored.params, stored.tags) == ({"who": "you"}, ["default", "nightly"])
    assert (await client.get(f"/runs/{run_id}")).json()["schedule_id"] == made["schedule_id"]
    assert (await client.get(f"/runs/{run_id}/result")).json() == "hello you"


async def test_instants_and_cron_are_read_as_in_the_form(client: httpx.AsyncClient) -> None:
    once = await client.post("/schedules", json={"flow_name": "a", "run_at": FAR})
    assert (once.status_code, once.json()["next_at"]) == (200, FAR_AT)
    cron = {"flow_name": "a", "cron": "30 8 * * *", "timezone": "Asia/Tokyo", "run_at": None, "start_at": ""}
    assert (await client.post("/schedules", json=cron)).json()["cron"] == "30 8 * * *"


@pytest.mark.parametrize(
    ("body", "place", "sentence"),
    [
        ({"flow_name": "a"}, "run_at", ONE_OF),
        ({"flow_name": "a", "run_at": FAR, "timezone": "UTC"}, "timezone", "timezone goes with cron"),
        ({"flow_name": "a", "cron": "often"}, "cron", "Write five fields"),
        ({"flow_name": "a", "interval_seconds": 0}, "interval_seconds", "Write a number of seconds"),
        ({"flow_name": "", "run_at": FAR}, "flow_name", "flow_name must have"),
        ({"flow_name": "a", "run_at": FAR, "tag": "a.b"}, "tag", "must match"),
        ({"flow_name": "a", "run_at": 5}, "run_at", "Expected `str | null`, got `int`"),
        ({"run_at": FAR}, None, "Object missing required field `flow_name`"),
        ([], None, "Expected `object`, got `array`"),
    ],
)
async def test_what_is_wrong_is_told_where(
    client: httpx.AsyncClient, body: Any, place: str | None, sentence: str
) -> None:
    answer = expect_error(await client.post("/schedules", json=body), 422, "ERR-PYOCO-0002")
    assert any(sentence in one["msg"] for one in answer["detail"]), answer
    assert place is None or any(place in one["loc"] for one in answer["detail"]), answer
    assert (await client.get("/schedules")).json() == []
