"""One key, one effect: at once, one after the other, after a restart, on two executions, after a refusal."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.faces.executions.driving import Driver, expect_accepted, expect_refusal, expect_rejected
from tests.http_api.serving import serving
from tests.http_api.tenants import as_tenants

KEY = "one-and-the-same"


@pytest.fixture
def drive(client: httpx.AsyncClient) -> Driver:
    return Driver(client)


async def test_fifty_at_once_have_one_effect_and_one_202(drive: Driver) -> None:
    execution_id = await drive.started("a")
    body = {"attempt": 1, "workerId": "w"}
    answers = await asyncio.gather(*(drive.on(execution_id, "a/start", body, KEY) for _ in range(50)))
    assert Counter(answer.status_code for answer in answers) == {202: 1, 200: 49}
    assert len({answer.content for answer in answers}) == 1
    replayed = [answer.headers.get("idempotency-replayed") for answer in answers]
    assert Counter(replayed) == {"true": 49, None: 1}
    assert (await drive.types(execution_id)).count("NODE_STARTED a") == 1


async def test_fifty_creations_at_once_make_one_execution(drive: Driver) -> None:
    await drive.graph("a")
    body = {"graphId": "g", "input": {"n": 1}}
    answers = await asyncio.gather(*(drive.post("/executions", body, KEY) for _ in range(50)))
    assert Counter(answer.status_code for answer in answers) == {202: 1, 200: 49}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert len((await drive.client.get("/executions")).json()["executions"]) == 1


async def test_two_gateways_give_one_answer(config: NatsBackendConfig, client: httpx.AsyncClient) -> None:
    here = Driver(client)
    async with serving(config) as other:
        there = Driver(other)
        execution_id = await here.started("a")
        both = (here, there) * 10
        answers = await asyncio.gather(*(one.on(execution_id, "cancel", {}, KEY) for one in both))
    assert Counter(answer.status_code for answer in answers) == {202: 1, 200: 19}
    assert (await here.types(execution_id)).count("EXECUTION_CANCEL_REQUESTED") == 1


async def test_the_same_bytes_after_a_restart_whatever_else_was_sent(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        drive = Driver(client)
        execution_id = await drive.started("a")
        created = await drive.post("/executions", {"graphId": "g", "input": {"x": 1}}, KEY)
        first = await drive.on(execution_id, "a/start", {"attempt": 1, "workerId": "w"}, KEY)
        await drive.ok(execution_id, "cancel")
    async with serving(config) as client:
        drive = Driver(client)
        reordered = {"workerId": "w", "attempt": 1}
        again = await drive.on(execution_id, "a/start", reordered, KEY)
        path, late = f"/executions/{execution_id}/nodes/a/start", {"X-Correlation-Id": "another"}
        once_more = await drive.post(path, reordered, KEY, **late)
        recreated = await drive.post("/executions", {"input": {"x": 1.0}, "graphId": "g"}, KEY)
    assert first.content == again.content == once_more.content
    assert (first.status_code, again.status_code) == (202, 200)
    expect_accepted(again, "StartNode", 200)
    assert (created.content, created.headers["location"]) == (
        recreated.content,
        recreated.headers["location"],
    )


async def test_one_key_has_its_effect_on_each_execution_and_each_address(drive: Driver) -> None:
    first = await drive.started("a")
    second = await drive.create()
    await drive.ok(second, "start")
    body = {"attempt": 1, "workerId": "w"}
    for execution_id in (first, second):
        assert (await drive.on(execution_id, "a/start", body, KEY)).status_code == 202
        assert (await drive.on(execution_id, "a/success", {}, KEY)).status_code == 202
    assert (await drive.statuses(first), await drive.statuses(second)) == (
        ("COMPLETED", {"a": "SUCCEEDED"}),
        ("COMPLETED", {"a": "SUCCEEDED"}),
    )


async def test_another_body_with_the_key_is_a_conflict_that_says_what_differs(drive: Driver) -> None:
    execution_id = await drive.started("a")
    await drive.on(execution_id, "a/start", {"attempt": 1, "workerId": "w"}, KEY)
    other = await drive.on(execution_id, "a/start", {"attempt": 1, "workerId": "v"}, KEY)
    error = expect_refusal(other, 409, "IDEMPOTENCY_CONFLICT")
    assert error["details"] == {"differs": ["workerId"]}


async def test_a_guards_no_is_not_remembered(drive: Driver) -> None:
    execution_id = await drive.started("a")
    expect_rejected(await drive.on(execution_id, "a/success", {"output": 1}, KEY), "NODE_STATUS")
    await drive.take(execution_id, "a")
    assert (await drive.on(execution_id, "a/success", {"output": 1}, KEY)).status_code == 202
    assert (await drive.on(execution_id, "a/success", {"output": 1}, KEY)).status_code == 200


async def test_a_key_is_nowhere_stored_as_it_was_sent(
    config: NatsBackendConfig, client: httpx.AsyncClient
) -> None:
    secret = "a-key-that-nobody-else-should-read"
    drive = Driver(client)
    execution_id = await drive.started("a")
    assert (await drive.on(execution_id, "cancel", {}, secret)).json()["idempotencyKey"] == secret
    expect_rejected(await drive.on(execution_id, "a/success", {}, secret), "EXECUTION_TERMINAL")
    store = await Store.connect(config, name="test")
    try:
        for stream in (config.events_stream, config.refused_stream, f"KV_{config.idempotency_kv_bucket}"):
            found = await store.jetstream.after(stream, ">", 0)
            assert found or stream == config.refused_stream
            assert not [one for one in found if secret.encode() in one.data + one.headers]
    finally:
        await store.close()


async def test_the_ledger_remembers_which_events_came_of_a_command(drive: Driver) -> None:
    execution_id = await drive.started("a")
    await drive.on(execution_id, "cancel", {}, KEY)
    events = await drive.events(execution_id)
    shown = (await drive.client.get(f"/idempotency/{KEY}")).json()
    assert [event["eventId"] for event in events[-3:]] == shown["event_ids"], shown


async def test_two_tenants_with_one_key_and_no_sight_of_each_other(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "red", "blue") as (_, (red_client, blue_client)):
        red, blue = Driver(red_client), Driver(blue_client)
        await red.graph("a")
        await blue.graph("a")
        ids = []
        for drive in (red, blue):
            made = await drive.post("/executions", {"graphId": "g"}, KEY)
            ids.append(expect_accepted(made, "CreateExecution")["executionId"])
        assert ids[0] != ids[1]
        expect_refusal(await blue.on(ids[0], "cancel"), 404, "EXECUTION_NOT_FOUND")
        for below in ("", "/events", "/state", "/stream", "/why", "/verify"):
            expect_refusal(await blue.client.get(f"/executions/{ids[0]}{below}"), 404, "EXECUTION_NOT_FOUND")
        listed = (await blue.client.get("/executions")).json()["executions"]
        assert [one["executionId"] for one in listed] == [ids[1]]
        assert (await red.statuses(ids[0]))[0] == "ACTIVE"
        actor = (await red.events(ids[0]))[0]["actor"]
        assert (actor["kind"], len(actor["id"]) > 0) == ("user", True)
