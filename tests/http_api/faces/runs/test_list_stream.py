"""GET /runs/stream and /runs/stats: the list as it changes, resumed by place, and sums of all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.commands import AddTag, CancelRun, EraseRun
from pyoco_server.operations.live import run_changes
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.live import Event, Live, events, live
from tests.http_api.serving import expect_error, submit
from tests.http_api.tenants import as_tenants
from tests.worker.stage import config_on


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as started:
        yield started


def following(gateway: Live, last_event_id: str | None = None) -> Any:
    headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
    return gateway.client.stream("GET", "/runs/stream", headers=headers, params={"timeout_sec": 60})


async def told_of(stream: AsyncIterator[Event], run_id: str, status: str) -> Event:
    """The first event that says so."""
    async for event in stream:
        if any(run["run_id"] == run_id and run["status"] == status for run in event.data["runs"]):
            return event
    raise AssertionError("the stream ended before")


def is_within(data: dict[str, Any], instant: str) -> bool:
    """Whether it happened in the minute whose sums are told: the news may come in the next one."""
    return bool(data["runs"][0][instant] >= data["minute"]["at"])


async def test_runs_are_told_as_they_change_with_their_sums(gateway: Live, store: Store) -> None:
    async with following(gateway) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = events(answer)
        opening = await anext(stream)
        assert opening.name == "runs"
        assert opening.data["runs"] == []
        assert opening.data["standing"] == {"ready": True, "reasons": []}
        assert set(opening.data["counts"].values()) == {0}
        run_id = await submit(gateway.client)
        told = await told_of(stream, run_id, "PENDING")
        assert told.data["counts"]["PENDING"] == 1
        assert told.data["minute"]["submitted"] == is_within(told.data, "submitted_at")
        assert told.data["runs"][0] == (await gateway.client.get("/runs")).json()[0]
        await apply(store, run_id, CancelRun())
        told = await told_of(stream, run_id, "CANCELLED")
        assert told.data["counts"] | {"PENDING": 0, "CANCELLED": 1} == told.data["counts"]
        assert told.data["minute"]["cancelled"] == is_within(told.data, "updated_at")


async def test_an_erased_run_is_told_as_gone(gateway: Live, store: Store) -> None:
    run_id = await submit(gateway.client)
    await apply(store, run_id, CancelRun())
    async with following(gateway) as answer:
        stream = events(answer)
        await anext(stream)
        await apply(store, run_id, EraseRun())
        async for event in stream:
            if event.data["gone"]:
                assert event.data["gone"] == [run_id]
                assert event.data["runs"] == []
                return


async def test_whoever_comes_back_is_told_what_was_missed_and_nothing_else(gateway: Live) -> None:
    known = await submit(gateway.client)
    async with following(gateway) as answer:
        place = (await anext(events(answer))).id
    missed = [await submit(gateway.client) for _ in range(3)]
    await until(lambda: len(gateway.gateway.run_changes) == 0)
    async with following(gateway, place) as answer:
        stream = events(answer)
        told = (await anext(stream)).data["runs"]
        assert [run["run_id"] for run in told] == missed
        assert known not in missed
        later = await submit(gateway.client)
        await told_of(stream, later, "PENDING")


@pytest.mark.parametrize("last_changed", ["erased", "kept"])
async def test_a_returning_reader_receives_gone_for_erased_runs(
    gateway: Live, store: Store, last_changed: str
) -> None:
    kept, erased = await submit(gateway.client), await submit(gateway.client)
    await apply(store, erased, CancelRun())
    if last_changed == "kept":
        await apply(store, kept, AddTag(tag="x", tags_max=100))
    await gateway.gateway.read_model.catch_up()
    async with following(gateway) as answer:
        place = (await anext(events(answer))).id
    await apply(store, erased, EraseRun())
    await gateway.gateway.read_model.catch_up()
    async with following(gateway, place) as answer:
        told = await anext(events(answer))
        assert (told.name, told.data["gone"], told.data["runs"]) == ("runs", [erased], [])


async def test_another_tenant_is_not_told_of_what_was_erased(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "one", "two") as (store, [one, two]):
        erased = await submit(one)
        await apply(store, erased, CancelRun())
        gateway = one._transport.app.state.gateway  # type: ignore[attr-defined]
        await gateway.read_model.catch_up()
        place = gateway.run_changes.subscribe(None, None)._place
        await apply(store, erased, EraseRun())
        await gateway.read_model.catch_up()
        assert await gateway.run_changes.holds(place)
        told = [gateway.run_changes.subscribe(tenant, place).take().gone for tenant in ("one", "two")]
        assert told == [[erased], []]
        assert two is not one


async def test_too_much_missed_is_told_as_a_reset(gateway: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_changes, "RESUME_RUNS_MAX", 2)
    async with following(gateway) as answer:
        place = (await anext(events(answer))).id
    for _ in range(3):
        await submit(gateway.client)
    async with following(gateway, place) as answer:
        first = await anext(events(answer))
        assert (first.name, first.data["runs"]) == ("reset", [])
        assert first.data["counts"]["PENDING"] == 3


async def test_many_changes_are_told_in_batches_of_the_latest_state(
    gateway: Live, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_changes, "BATCH_RUNS_MAX", 2)
    run_ids = [await submit(gateway.client) for _ in range(5)]
    async with following(gateway) as answer:
        stream = events(answer)
        await anext(stream)
        for number in range(4):
            for run_id in run_ids:
                await apply(store, run_id, AddTag(tag=f"t{number}", tags_max=100))
        seen: dict[str, list[str]] = {}
        async for event in stream:
            assert len(event.data["runs"]) <= 2
            seen |= {run["run_id"]: run["tags"] for run in event.data["runs"]}
            if all("t3" in seen.get(run_id, []) for run_id in run_ids):
                return


async def test_a_slow_reader_is_let_go_and_resumes(gateway: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_changes, "WAITING_RUNS_MAX", 1)
    reader = gateway.gateway.run_changes.subscribe(None, None)
    made = [await submit(gateway.client) for _ in range(3)]
    await until(lambda: reader.is_over)
    gateway.gateway.run_changes.unsubscribe(reader)
    assert len(gateway.gateway.run_changes) == 0
    again = gateway.gateway.run_changes.subscribe(None, run_changes.At())
    batch = again.take()
    assert batch is not None
    assert [run.run_id for run in batch.runs] == made
    gateway.gateway.run_changes.unsubscribe(again)


async def test_what_is_due_is_told_also_by_a_timer_that_is_early(
    gateway: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_changes, "NOTIFY_INTERVAL_SEC", 3600.0)
    news = gateway.gateway.run_changes
    reader = news.subscribe(None, None)
    assert reader.take() is not None
    await submit(gateway.client)
    await gateway.gateway.read_model.catch_up()
    assert reader.take() is None  # too soon after the last batch
    reader._throttle._fire()
    batch = reader.take()
    assert batch is not None
    assert len(batch.runs) == 1
    news.unsubscribe(reader)


async def test_places_of_others_and_rubbish_are_refused(gateway: Live) -> None:
    for rubbish in ("rubbish", "a" * 600):
        headers = {"Last-Event-ID": rubbish}
        answer = await gateway.client.get("/runs/stream", headers=headers, params={"timeout_sec": 1})
        assert answer.status_code == 422
    answer = await gateway.client.get("/runs/stream", params={"timeout_sec": 0})
    assert answer.status_code == 422


async def test_a_broker_that_goes_and_comes_is_told_to_those_who_look(own_nats_server: NatsServer) -> None:
    async with live(config_on(own_nats_server)) as gateway, following(gateway) as answer:
        stream = events(answer)
        assert (await anext(stream)).data["standing"]["ready"]
        own_nats_server.kill()
        async for event in stream:
            if not event.data.get("standing", {}).get("ready", True):
                assert event.data["standing"]["reasons"]
                break
        own_nats_server.start()
        async for event in stream:
            if event.data.get("standing", {}).get("ready"):
                return


async def test_stats_have_every_status_and_every_minute(client: httpx.AsyncClient) -> None:
    await submit(client)
    body = (await client.get("/runs/stats")).json()
    assert body["counts"]["PENDING"] == 1
    assert sum(body["counts"].values()) == 1
    minutes = body["minutes"]
    assert len(minutes) == 60
    steps = {later["at"] - earlier["at"] for earlier, later in pairwise(minutes)}
    assert steps == {60}
    assert sum(minute["submitted"] for minute in minutes) == 1


async def test_a_tenant_sees_sums_and_news_of_its_own(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "globex") as (_, (acme, globex)):
        for _ in range(2):
            await submit(acme)
        await submit(globex)
        assert (await acme.get("/runs/stats")).json()["counts"]["PENDING"] == 2
        assert (await globex.get("/runs/stats")).json()["counts"]["PENDING"] == 1
        own = (await acme.get("/runs")).json()[0]["run_id"]
        assert len((await acme.get("/runs", params={"q": own})).json()["items"]) == 1
        assert (await globex.get("/runs", params={"q": own})).json()["items"] == []
        flows = (await globex.get("/flows")).json()
        assert [flow["flow_name"] for flow in flows] == ["noop"]


async def test_the_news_of_a_tenant_hold_nothing_of_others(nats_server: NatsServer) -> None:
    config = config_on(nats_server)
    async with live(config) as gateway:
        news = gateway.gateway.run_changes
        reader = news.subscribe("acme", None)
        reader.take()
        await submit(gateway.client)  # of nobody
        await gateway.gateway.read_model.catch_up()
        assert reader.take() is None
        news.unsubscribe(reader)


async def test_text_finds_runs_in_pages_and_bounds_what_it_looks_at(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [await submit(client, "needle") for _ in range(5)]
    for _ in range(5):
        await submit(client, "hay")
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await client.get("/runs", params={"q": "NEEDLE", "limit": 2, "cursor": cursor})).json()
        assert len(page["items"]) <= 2
        found += [run["run_id"] for run in page["items"]]
        cursor = page["next_cursor"]
    assert found == wanted[::-1]
    by_id = (await client.get("/runs", params={"q": wanted[0][:13]})).json()
    assert [run["run_id"] for run in by_id["items"]] == [wanted[0]]
    whole = (await client.get("/runs", params={"q": wanted[1]})).json()
    assert ([run["run_id"] for run in whole["items"]], whole["next_cursor"]) == ([wanted[1]], None)
    other = (await client.get("/runs", params={"q": wanted[1], "status": "FAILED"})).json()
    assert other["items"] == []
    assert (await client.get("/runs", params={"q": "nothing like it"})).json() == {
        "items": [],
        "next_cursor": None,
    }
    # A cursor is for its own text only.
    first = (await client.get("/runs", params={"q": "needle", "limit": 1})).json()
    other = await client.get("/runs", params={"q": "hay", "limit": 1, "cursor": first["next_cursor"]})
    expect_error(other, 422, "ERR-PYOCO-0017")
    expect_error(await client.get("/runs", params={"q": "x" * 201}), 422, "ERR-PYOCO-0017")


async def test_a_search_says_where_to_go_on_also_when_it_found_nothing(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.operations.runs.query.LOOKED_AT_MAX", 4)
    monkeypatch.setattr("pyoco_server.operations.runs.query.PORTION", 2)
    oldest = await submit(client, "needle")
    for _ in range(5):
        await submit(client, "hay")
    first = (await client.get("/runs", params={"q": "needle"})).json()
    assert first["items"] == []
    second = (await client.get("/runs", params={"q": "needle", "cursor": first["next_cursor"]})).json()
    assert [run["run_id"] for run in second["items"]] == [oldest]
