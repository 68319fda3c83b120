"""`Idempotency-Key` on the runs face: one effect, and the very bytes of its answer again."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import quote

import httpx
import pytest

from pyoco_server.canonical_json import digest
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware.access_log import redact_server_logs
from pyoco_server.lifecycle.commands import CancelRun
from pyoco_server.operations.idempotency.keyed_request import KeyedRequest
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.runs.test_submit_yaml import WORKFLOW
from tests.http_api.serving import expect_error, is_ready, serving, submit
from tests.http_api.tenants import as_tenants
from tests.worker.stage import config_on, count_of, jobs_queued, lawful

KEY = {"Idempotency-Key": "order-4711"}
BODY = {"flow_name": "greet", "params": {"n": 1}}


async def runs_in(client: httpx.AsyncClient) -> list[str]:
    return [run["run_id"] for run in (await client.get("/runs")).json()]


async def test_a_repetition_has_the_same_bytes_also_after_a_restart(config: NatsBackendConfig) -> None:
    async with serving(config) as before:
        first = await before.post("/runs", json=BODY, headers=KEY)
        again = await before.post("/runs", json=BODY, headers=KEY)
    async with serving(config) as after:
        later = await after.post("/runs", json=BODY, headers=KEY)
        assert await runs_in(after) == [first.json()["run_id"]]
    assert first.status_code == again.status_code == later.status_code == 200
    assert first.content == again.content == later.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == later.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == "application/json"
    assert again.headers["x-request-id"] != first.headers["x-request-id"]


async def test_of_fifty_at_two_gateways_one_makes_a_run(config: NatsBackendConfig, store: Store) -> None:
    async with serving(config) as one, serving(config) as other:
        posts = [at.post("/runs", json=BODY, headers=KEY) for at in (one, other) for _ in range(25)]
        answers = await asyncio.gather(*posts)
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        assert sum("idempotency-replayed" in answer.headers for answer in answers) == 49
        assert await runs_in(other) == [answers[0].json()["run_id"]]
    assert await jobs_queued(store) == 1
    await lawful(store, answers[0].json()["run_id"])


async def test_another_body_is_a_conflict_that_says_where(client: httpx.AsyncClient) -> None:
    await client.post("/runs", json=BODY, headers=KEY)
    answer = await client.post("/runs", json=BODY | {"params": {"n": 2}, "tag": "gpu"}, headers=KEY)
    message = (
        "This idempotency key was used for another request: params, tag differ. "
        "Send what was sent first, or use a new key."
    )
    assert answer.status_code == 409
    assert answer.json() == {"detail": message, "message": message, "differs": ["params", "tag"]}
    assert len(await runs_in(client)) == 1


async def test_the_same_body_said_otherwise_is_the_same(client: httpx.AsyncClient) -> None:
    first = await client.post("/runs", content=b'{"flow_name":"f","params":{"n":1}}', headers=KEY)
    again = await client.post("/runs", content=b'{ "params": {"n": 1.0}, "flow_name": "f" }', headers=KEY)
    assert again.content == first.content


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"flow_name":""}', b'{"flow_name":"f","tag":"a b"}', b'{"flow_name":"f","flow_name":"f"}'],
)
async def test_what_is_not_valid_reserves_nothing(client: httpx.AsyncClient, body: bytes) -> None:
    expect_error(await client.post("/runs", content=body, headers=KEY), 422, "ERR-PYOCO-0002")
    assert (await client.get("/idempotency/order-4711")).status_code == 404
    assert (await client.post("/runs", json=BODY, headers=KEY)).status_code == 200


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b"", "has 0 characters; send 1 to 255"),
        (b"k" * 256, "has 256 characters; send 1 to 255"),
        (b" k", "none of them a blank"),
        (b"a\tb", "ASCII only"),
        (b"a\x00b", "ASCII only"),
        (b"a\x7fb", "ASCII only"),
        ("が".encode(), "ASCII only"),
        (b"caf\xe9", "ASCII only"),
    ],
)
async def test_what_cannot_be_a_key_is_told(client: httpx.AsyncClient, key: bytes, words: str) -> None:
    headers = [(b"Idempotency-Key", key)]
    body = expect_error(await client.post("/runs", json=BODY, headers=headers), 422, "ERR-PYOCO-0002")
    (problem,) = body["detail"]
    assert problem["loc"] == ["header", "Idempotency-Key"]
    assert words in problem["msg"]
    assert await runs_in(client) == []


async def test_two_keys_with_one_request_are_refused(client: httpx.AsyncClient) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    answer = await client.post("/runs", json=BODY, headers=headers)
    assert "was sent 2 times" in expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["msg"]


async def test_the_longest_key_and_every_sign_of_ascii_will_do(client: httpx.AsyncClient) -> None:
    signs = "".join(map(chr, range(0x21, 0x7F))) + " x"
    for key in (signs, "k" * 255):
        first = await client.post("/runs", json=BODY, headers={"Idempotency-Key": key})
        known = await client.get(f"/idempotency/{quote(key, safe='')}")
        assert known.json()["answer"] == first.json()


async def test_a_workflow_with_a_key_is_submitted_once(client: httpx.AsyncClient, store: Store) -> None:
    async def post(flow_name: str, workflow: bytes = WORKFLOW) -> httpx.Response:
        file = {"workflow": ("flow.yaml", workflow)}
        return await client.post("/runs/yaml", files=file, data={"flow_name": flow_name}, headers=KEY)

    first, again = await post("nightly"), await post("nightly")
    assert first.content == again.content, "although the parts are parted by another line each time"
    assert again.headers["idempotency-replayed"] == "true"
    assert (await post("daily")).json()["differs"] == ["flow_name"]
    assert (await post("nightly", WORKFLOW + b"# more\n")).json()["differs"] == ["workflow"]
    assert await jobs_queued(store) == 1


async def test_a_workflow_that_is_not_valid_reserves_nothing(client: httpx.AsyncClient) -> None:
    file = {"workflow": ("flow.yaml", b"flow: 1")}
    refused = await client.post("/runs/yaml", files=file, data={"flow_name": "x"}, headers=KEY)
    assert refused.status_code == 422
    assert (await client.get("/idempotency/order-4711")).status_code == 404


async def test_a_cancel_with_a_key_is_shown_as_it_was_then(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await submit(client)
    path = f"/runs/{run_id}/cancel"
    first = await client.post(path, headers=KEY)
    again = await client.post(path, content=b"{}", headers=KEY)
    assert (await client.post(path)).json()["status"] == "CANCELLED"
    assert first.json()["status"] == "CANCELLING"
    assert again.content == first.content
    assert (await client.post(path, json={"reason": "x"}, headers=KEY)).json()["differs"] == ["reason"]
    assert await count_of(store, run_id, "CancelRequested") == 1


async def test_a_retry_with_a_key_makes_one_run(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await submit(client)
    path = f"/runs/{run_id}/retry"
    refused = await client.post(path, headers=KEY)
    assert refused.status_code == 409
    assert refused.json()["status"] == "PENDING"
    await apply(store, run_id, CancelRun())
    answers = await asyncio.gather(*(client.post(path, headers=KEY) for _ in range(10)))
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["retry_of"] == run_id
    assert sorted(await runs_in(client)) == sorted([run_id, answers[0].json()["run_id"]])


async def test_one_key_at_two_places_has_two_effects(client: httpx.AsyncClient, store: Store) -> None:
    ids = [await submit(client), await submit(client)]
    for run_id in ids:
        answer = await client.post(f"/runs/{run_id}/cancel", headers=KEY)
        assert "idempotency-replayed" not in answer.headers
    third = (await client.post("/runs", json=BODY, headers=KEY)).json()["run_id"]
    assert [await count_of(store, run_id, "CancelRequested") for run_id in ids] == [1, 1]
    assert third not in ids
    shown = (await client.get("/idempotency/order-4711")).json()
    paths = [shown["path"], *(other["path"] for other in shown["others"])]
    assert paths == [f"/runs/{ids[0]}/cancel", f"/runs/{ids[1]}/cancel", "/runs"]


async def test_one_key_of_two_callers_has_two_effects(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "acme", "other") as (_, clients):
        answers = [await client.post("/runs", json=BODY, headers=KEY) for client in clients]
        assert len({answer.json()["run_id"] for answer in answers}) == 3
        assert all("idempotency-replayed" not in answer.headers for answer in answers)
        known = [await client.get("/idempotency/order-4711") for client in clients]
        assert [one.json()["answer"] for one in known] == [answer.json() for answer in answers]
        await clients[0].post("/runs", json=BODY, headers={"Idempotency-Key": "mine"})
        assert [(await one.get("/idempotency/mine")).status_code for one in clients] == [200, 404, 404]


async def test_a_caller_who_may_only_write_sees_its_own_keys(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", scopes=["runs:write"]) as (_, (client,)):
        await client.post("/runs", json=BODY, headers=KEY)
        assert (await client.get("/idempotency/order-4711")).status_code == 200
        assert (await client.delete("/idempotency/order-4711")).status_code == 403
        assert (await client.get("/runs")).status_code == 403


async def test_what_became_of_a_key_is_shown(client: httpx.AsyncClient) -> None:
    answer = await client.post("/runs", json=BODY, headers=KEY)
    shown = (await client.get("/idempotency/order-4711")).json()
    assert 172_000 < shown.pop("expires_at") - shown.pop("reserved_at") < 173_000
    (event_id,) = shown.pop("event_ids")
    assert event_id.endswith(".0")
    assert shown == {
        "method": "POST",
        "path": "/runs",
        "digest": digest(BODY),
        "state": "done",
        "resource_id": answer.json()["run_id"],
        "status": 200,
        "answer": answer.json(),
        "others": [],
    }


@pytest.mark.parametrize("key", ["unknown", "a/b", "x" * 255])
async def test_a_key_that_nobody_sent_is_not_there(client: httpx.AsyncClient, key: str) -> None:
    expect_error(await client.get(f"/idempotency/{key}"), 404, None)


@pytest.mark.parametrize("key", ["%E3%81%8C", "a%09b", "x" * 256])
async def test_what_cannot_be_a_key_cannot_be_asked_for(client: httpx.AsyncClient, key: str) -> None:
    expect_error(await client.get(f"/idempotency/{key}"), 422, "ERR-PYOCO-0002")


async def test_a_request_under_way_has_no_answer_yet(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    reserve = KeyedRequest.__aenter__

    async def slowly(request: KeyedRequest) -> KeyedRequest:
        reserved = await reserve(request)
        begun.set()
        await go_on.wait()
        return reserved

    monkeypatch.setattr(KeyedRequest, "__aenter__", slowly)
    first = asyncio.create_task(client.post("/runs", json=BODY, headers=KEY))
    await begun.wait()
    shown = (await client.get("/idempotency/order-4711")).json()
    go_on.set()
    assert (shown["state"], shown["status"], shown["answer"]) == ("reserved", None, None)
    assert (await first).json()["run_id"] == shown["resource_id"]


async def test_after_an_outage_the_same_key_succeeds_once(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server, broker_timeout_sec=1.0)
    async with serving(config) as client:
        own_nats_server.kill()
        refused = await client.post("/runs", json=BODY, headers=KEY)
        assert refused.status_code == 503
        own_nats_server.start()
        await until(lambda: is_ready(client))
        answers = [await client.post("/runs", json=BODY, headers=KEY) for _ in range(3)]
        assert {answer.status_code for answer in answers} == {200}
        assert await runs_in(client) == [answers[0].json()["run_id"]]


async def test_the_log_shows_hashes_of_keys(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    redact_server_logs()
    access = logging.getLogger("uvicorn.access")
    access.info('%s - "%s %s HTTP/%s" %d', "1.2.3.4:5", "GET", "/idempotency/order-4711", "1.1", 200)
    access.info("up")
    await client.post("/runs", json=BODY, headers=KEY)
    await client.get("/idempotency/order-4711")
    assert "GET /idempotency/" in caplog.messages[0]
    ours = [repr(vars(record)) for record in caplog.records if record.name != "httpx"]
    assert [message for message in ours if "4711" in message] == []


async def test_a_refused_callers_path_is_logged_without_the_key(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyoco_server")
    async with serving(config_on(nats_server, http_auth_mode="api_key")) as stranger:
        assert (await stranger.get("/idempotency/order-4711")).status_code == 401
    said = [repr(vars(record)) for record in caplog.records if record.message == "caller refused"]
    assert said
    assert "4711" not in "".join(said)
