"""`/dlq`: what could not be run, for whom it was, and one more try for it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.operations.fleet import dead_letters
from pyoco_server.store.queue import dead_letters as dead_letter_store
from pyoco_server.store.queue.dead_letters import DeadLetter
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.engine.building import flow_of, make_task
from tests.http_api.serving import expect_error, serving, submit
from tests.http_api.tenants import as_tenants
from tests.store.making import Mishap
from tests.worker.stage import Flows, config_on, foreign_job, publish_job, working

MEMBERS = [
    "id", "timestamp", "reason", "error", "run_id", "flow_name", "tag", "tags", "worker_id", "num_delivered",
    "subject", "kind", "redriven_as", "dismissed",
]  # fmt: skip


def broken() -> None:
    raise ValueError("broken on purpose")


FLOWS = Flows(broken=lambda: flow_of(make_task("only", broken)))


async def failed(client: httpx.AsyncClient, config: NatsBackendConfig, **members: Any) -> str:
    run_id = await submit(client, "broken", **members)
    async with working(config, FLOWS, worker_id="w1") as worker:
        assert await worker.run_once(timeout=5) == run_id
    return run_id


async def written(store: Store, reason: str = "execution_error", **members: Any) -> None:
    letter = DeadLetter(timestamp=time.time(), reason=reason, **members)
    assert await store.dead_letters.publish(letter, letter_id=f"{time.time_ns()}")


async def page(client: httpx.AsyncClient, query: str = "") -> dict[str, Any]:
    answer = await client.get(f"/dlq{query}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_nothing_has_gone_wrong_yet(client: httpx.AsyncClient) -> None:
    assert (await client.get("/dlq")).content == b'{"items":[],"next_cursor":null}'
    expect_error(await client.get("/dlq/1"), 404, None)
    expect_error(await client.post("/dlq/1/redrive"), 404, None)


async def test_a_failed_run_leaves_a_letter_in_the_members_of_the_contract(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    run_id = await failed(client, config, params={"n": 1})
    [item] = (await page(client))["items"]
    assert list(item) == MEMBERS
    assert (item["reason"], item["run_id"], item["flow_name"]) == ("execution_error", run_id, "broken")
    assert item["error"] == "broken on purpose"
    whole = (await client.get(f"/dlq/{item['id']}")).json()
    assert whole["redriven_as"] is None
    assert f'"run_id":"{run_id}"' in whole["payload"]


async def test_letters_come_newest_first_page_by_page(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_store, "READ_AT_ONCE", 3)
    for number in range(8):
        await written(store, "max_deliver" if number % 2 else "execution_error", run_id=f"r{number}")

    async def pages(query: str) -> list[list[str]]:
        found, cursor = [], ""
        while True:
            body = await page(client, f"?{query}{cursor}")
            found.append([item["run_id"] for item in body["items"]])
            if body["next_cursor"] is None:
                return found
            cursor = f"&cursor={body['next_cursor']}"

    assert await pages("limit=50") == [["r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"]]
    assert await pages("limit=3") == [["r7", "r6", "r5"], ["r4", "r3", "r2"], ["r1", "r0"]]
    assert await pages("limit=2&reason=max_deliver") == [["r7", "r5"], ["r3", "r1"], []]
    assert await pages("reason=unheard_of") == [[]]
    monkeypatch.setattr(dead_letters, "LOOKED_AT_MAX", 4)
    assert await pages("reason=execution_error") == [["r6", "r4"], ["r2", "r0"]]


async def test_letters_gone_from_the_front_leave_no_trouble(client: httpx.AsyncClient, store: Store) -> None:
    for number in range(5):
        await written(store, run_id=f"r{number}")
    await store.jetstream.api(f"STREAM.PURGE.{store.config.dlq_stream}", {"seq": 4})
    assert [item["id"] for item in (await page(client))["items"]] == ["5", "4"]
    expect_error(await client.get("/dlq/1"), 404, None)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "limit=", "cursor=x", "cursor=" + "A" * 600, "cursor=%F0%9F"]
)
async def test_a_query_that_makes_no_sense_is_422(client: httpx.AsyncClient, query: str) -> None:
    body = expect_error(await client.get(f"/dlq?{query}"), 422, "ERR-PYOCO-0002")
    assert body["detail"][0]["loc"] == ["query", query.partition("=")[0]]


async def test_a_cursor_is_good_for_its_own_filter_only(client: httpx.AsyncClient, store: Store) -> None:
    for _ in range(3):
        await written(store)
    cursor = (await page(client, "?limit=1"))["next_cursor"]
    refused = await client.get(f"/dlq?limit=1&reason=execution_error&cursor={cursor}")
    expect_error(refused, 422, "ERR-PYOCO-0002")


@pytest.mark.parametrize("letter_id", ["0", "x", "-1", "1.0", "9" * 40, "１", "%00"])
async def test_what_cannot_be_an_id_is_404(client: httpx.AsyncClient, letter_id: str) -> None:
    expect_error(await client.get(f"/dlq/{letter_id}"), 404, None)
    expect_error(await client.post(f"/dlq/{letter_id}/redrive"), 404, None)


async def test_what_is_no_letter_is_shown_as_far_as_it_goes(client: httpx.AsyncClient, store: Store) -> None:
    for data in (b"\xff{", b"[]", b'{"reason":7}'):
        await store.jetstream.publish(f"{store.config.dlq_subject_prefix}.default", data)
    items = (await page(client))["items"]
    assert [item["reason"] for item in items] == ["unreadable"] * 3
    assert (await client.get("/dlq/3")).json()["payload"] == '{"reason":7}'
    expect_error(await client.post("/dlq/3/redrive"), 409, None)


async def test_a_redrive_is_a_new_run_of_the_same(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    run_id = await failed(client, config, params={"n": 1}, tags=["a", "b"])
    answer = await client.post("/dlq/1/redrive")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["letter_id"], body["status"]) == ("1", "PENDING")
    assert body["run_id"] != run_id
    run = (await client.get(f"/runs/{body['run_id']}")).json()
    assert (run["flow_name"], run["params"], run["tags"]) == ("broken", {"n": 1}, ["a", "b"])
    assert run["retry_of"] == run_id
    await client.get("/runs")
    assert (await client.get("/dlq/1")).json()["redriven_as"] == body["run_id"]
    async with working(config, Flows(broken=Flows()._builders["noop"]), worker_id="w2") as worker:
        assert await worker.run_once(timeout=5) == body["run_id"]
    assert (await client.get(f"/runs/{body['run_id']}")).json()["status"] == "COMPLETED"


async def test_a_letter_is_redriven_once_unless_asked_again(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    await failed(client, config)
    async with serving(config) as other:
        answers = await asyncio.gather(
            *(one.post("/dlq/1/redrive") for one in (client, other, client, other))
        )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    [first] = [answer.json()["run_id"] for answer in answers if answer.status_code == 200]
    refused = expect_error(await client.post("/dlq/1/redrive", json={}), 409, None)
    assert first in refused["detail"]
    again = (await client.post("/dlq/1/redrive", json={"again": True})).json()["run_id"]
    third = (await client.post("/dlq/1/redrive", json={"again": True})).json()["run_id"]
    assert len({first, again, third}) == 3
    assert len((await client.get("/runs")).json()) == 4


async def test_a_redrive_that_was_not_finished_can_be_repeated(
    client: httpx.AsyncClient, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(client, config)
    gateway = client._transport.app.state.gateway  # type: ignore[attr-defined]
    mishap = Mishap(monkeypatch, gateway.store, config.work_subject_prefix, times=3, sent=False)
    expect_error(await client.post("/dlq/1/redrive"), 503, "ERR-PYOCO-0003")
    assert mishap.left == 0
    assert (await client.post("/dlq/1/redrive")).status_code == 200
    expect_error(await client.post("/dlq/1/redrive"), 409, None)


async def test_what_was_no_job_cannot_be_redriven_and_it_is_said_why(
    client: httpx.AsyncClient, config: NatsBackendConfig, store: Store
) -> None:
    await publish_job(store, b'{"no": "job"}')
    async with working(config, FLOWS, worker_id="w1") as worker:
        await worker.run_once(timeout=5)
    [item] = (await page(client, "?reason=invalid_job"))["items"]
    refused = expect_error(await client.post(f"/dlq/{item['id']}/redrive"), 409, None)
    assert "no job" in refused["detail"]
    assert f"{config.work_subject_prefix}.default" in refused["detail"]


async def test_a_run_that_is_gone_is_redriven_from_its_letter(
    client: httpx.AsyncClient, store: Store
) -> None:
    job = foreign_job(flow_name="greet", params={"x": 1}, tag="gpu")
    await written(store, run_id=job["run_id"], payload=msgspec.json.encode(job).decode())
    run_id = (await client.post("/dlq/1/redrive")).json()["run_id"]
    run = (await client.get(f"/runs/{run_id}")).json()
    assert (run["flow_name"], run["params"], run["tag"]) == ("greet", {"x": 1}, "gpu")


async def test_a_letter_that_lacks_half_of_its_job_cannot_be_redriven(
    client: httpx.AsyncClient, store: Store
) -> None:
    await written(store, run_id="gone", payload='{"run_id":"gone","flow_na')
    expect_error(await client.post("/dlq/1/redrive"), 409, None)
    assert (await client.get("/runs")).json() == []


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"again":1}', b"\xff"])
async def test_a_redrive_with_a_strange_body_is_422(
    client: httpx.AsyncClient, store: Store, body: bytes
) -> None:
    await written(store)
    expect_error(await client.post("/dlq/1/redrive", content=body), 422, "ERR-PYOCO-0002")


async def test_a_dismissed_letter_is_left_out_and_kept(client: httpx.AsyncClient, store: Store) -> None:
    await written(store, run_id="first")
    await written(store, run_id="second")
    answer = await client.post("/dlq/1/dismiss", json={"note": "the table was missing"})
    assert answer.status_code == 200, answer.text
    dismissed = answer.json()["dismissed"]
    assert (dismissed["note"], dismissed["by"]) == ("the table was missing", None)
    # The first dismissal counts.
    again = await client.post("/dlq/1/dismiss", json={"note": "another note"})
    assert again.json() == answer.json()
    assert [item["run_id"] for item in (await page(client))["items"]] == ["second"]
    every = (await page(client, "?include_dismissed=true"))["items"]
    assert [(item["run_id"], item["dismissed"]) for item in every] == [("second", None), ("first", dismissed)]
    assert (await client.get("/dlq/1")).json()["dismissed"] == dismissed
    assert (await client.post("/dlq/2/dismiss")).json()["dismissed"]["note"] is None
    assert (await page(client))["items"] == []


async def test_concurrent_dismissals_leave_one(
    client: httpx.AsyncClient, config: NatsBackendConfig, store: Store
) -> None:
    await written(store)
    async with serving(config) as other:
        notes = [
            one.post("/dlq/1/dismiss", json={"note": f"{number}"})
            for number, one in enumerate((client, other, client, other))
        ]
        answers = await asyncio.gather(*notes)
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.text for answer in answers}) == 1


async def test_a_dismissal_belongs_to_its_letter_and_not_to_its_number(
    client: httpx.AsyncClient, store: Store
) -> None:
    """After the stream was created again, the first letter is another one."""
    await written(store, run_id="before")
    await client.post("/dlq/1/dismiss")
    [kept] = [one async for one in store.dead_letters.newest_first()]
    other = msgspec.structs.replace(kept, letter=msgspec.structs.replace(kept.letter, run_id="after"))
    assert await store.dismissals.of([other]) == {}
    assert list(await store.dismissals.of([kept])) == [1]


async def test_letters_are_filtered_by_their_kind(client: httpx.AsyncClient, store: Store) -> None:
    reasons = ("execution_error", "max_deliver", "invalid_job", "execution_error", "flow_not_found")
    for reason in reasons:
        await written(store, reason)
    for kind, wanted in (
        ("delivery", ["flow_not_found", "invalid_job", "max_deliver"]),
        ("execution", ["execution_error"] * 2),
        ("", list(reversed(reasons))),
    ):
        items = (await page(client, f"?kind={kind}"))["items"]
        assert [item["reason"] for item in items] == wanted
    first = await page(client, "?kind=delivery&limit=1")
    rest = await page(client, f"?kind=delivery&limit=5&cursor={first['next_cursor']}")
    assert [item["reason"] for item in rest["items"]] == ["invalid_job", "max_deliver"]
    expect_error(await client.get("/dlq?kind=other"), 422, "ERR-PYOCO-0002")
    mixed = await client.get(f"/dlq?kind=execution&cursor={first['next_cursor']}")
    expect_error(mixed, 422, "ERR-PYOCO-0002")


async def test_many_letters_are_checked_in_few_requests(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "CHECKED_AT_ONCE", 3)
    for number in range(8):
        await written(store, run_id=f"r{number}")
    for letter_id in (2, 4, 8):
        await client.post(f"/dlq/{letter_id}/dismiss")
    assert [item["id"] for item in (await page(client))["items"]] == ["7", "6", "5", "3", "1"]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"note":1}', b'{"note":"' + b"x" * 1001 + b'"}'])
async def test_a_dismissal_with_a_strange_body_is_422(
    client: httpx.AsyncClient, store: Store, body: bytes
) -> None:
    await written(store)
    expect_error(await client.post("/dlq/1/dismiss", content=body), 422, "ERR-PYOCO-0002")
    assert (await client.get("/dlq/1")).json()["dismissed"] is None


async def test_letters_are_their_tenants(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "other") as (store, [acme, other]):
        ours = await submit(acme)
        await written(store, run_id=ours)
        job = foreign_job(tenant_id="other")
        await written(store, run_id=job["run_id"], payload=msgspec.json.encode(job).decode())
        await written(store, "invalid_job", payload="nobody's")
        await acme.get("/runs")
        assert [item["run_id"] for item in (await page(acme))["items"]] == [ours]
        assert [item["run_id"] for item in (await page(other))["items"]] == [job["run_id"]]
        expect_error(await other.get("/dlq/1"), 404, None)
        expect_error(await other.post("/dlq/1/redrive"), 404, None)
        expect_error(await other.post("/dlq/1/dismiss"), 404, None)
        expect_error(await acme.get("/dlq/3"), 404, None)
        redriven = (await acme.post("/dlq/1/redrive")).json()["run_id"]
        run = (await acme.get(f"/runs/{redriven}")).json()
        assert (run["tenant_id"], run["retry_of"]) == ("acme", ours)
        expect_error(await other.get(f"/runs/{redriven}"), 404, "ERR-PYOCO-0005")
        dismissed = (await acme.post("/dlq/1/dismiss", json={"note": "known"})).json()["dismissed"]
        assert dismissed["by"].startswith("api_key:")
        assert (await page(acme))["items"] == []


async def test_without_a_broker_all_of_it_is_503(nats_server: NatsServer) -> None:
    async with serving(
        config_on(nats_server, nats_url="nats://127.0.0.1:1", start_wait_sec=0), wait_ready=False
    ) as client:
        for answer in (
            await client.get("/dlq"),
            await client.get("/dlq/1"),
            await client.post("/dlq/1/redrive"),
            await client.post("/dlq/1/dismiss"),
        ):
            expect_error(answer, 503, "ERR-PYOCO-0003")
