"""GET /stream: several topics over one connection, each resumed at its own place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.streaming.live_stream import TOPICS_MAX
from pyoco_server.lifecycle.commands import CancelRun
from pyoco_server.operations.live import run_changes
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.queue.dead_letters import DeadLetter
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.live import Event, Live, events, live
from tests.http_api.serving import expect_error, submit
from tests.http_api.tenants import as_tenants
from tests.log_writing import Writer
from tests.worker.stage import config_on


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as started:
        yield started


def following(gateway: Live, *topics: str, after: list[str] | None = None, last: str = "") -> Any:
    query: dict[str, Any] = {"topic": list(topics), "after": after or [], "timeout_sec": 60}
    return gateway.client.stream(
        "GET", "/stream", params=query, headers={"Last-Event-ID": last} if last else {}
    )


async def the_first(stream: AsyncIterator[Event], topic: str, name: str) -> Event:
    """Of this topic and this name."""
    async for event in stream:
        if event.name == topic and event.data["event"] == name:
            return event
    raise AssertionError("the stream ended before")


async def test_each_event_says_its_topic_and_has_what_the_stream_of_its_own_has(
    gateway: Live, store: Store
) -> None:
    run_id = await submit(gateway.client)
    async with following(gateway, "runs", f"run:{run_id}", f"events:{run_id}", f"log:{run_id}") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = events(answer)
        opening = await the_first(stream, "runs", "runs")
        assert opening.data["data"]["standing"] == {"ready": True, "reasons": []}
        assert opening.id is not None
        assert opening.id.startswith("runs~")
        snapshot = await the_first(stream, f"run:{run_id}", "snapshot")
        assert snapshot.data["data"]["snapshot"]["status"] == "PENDING"
        created = await the_first(stream, f"events:{run_id}", "message")
        assert created.data["data"]["type"] == "EXECUTION_CREATED"
        assert created.id == f"events:{run_id}~1"
        await apply(store, run_id, CancelRun())
        over = set()
        async for event in stream:
            if event.data["event"] == "over":
                over.add(event.name)
            if over == {f"run:{run_id}", f"events:{run_id}", f"log:{run_id}"}:
                break
        later = await submit(gateway.client)  # the list goes on
        told = await the_first(stream, "runs", "runs")
        assert later in [run["run_id"] for run in told.data["data"]["runs"]]


async def test_what_is_printed_comes_line_by_line_and_goes_on_at_its_place(
    gateway: Live, store: Store
) -> None:
    run_id = await submit(gateway.client)
    topic = f"log:{run_id}"
    writer = Writer(store, run_id)
    await writer.write("one", "two")
    async with following(gateway, topic) as answer:
        stream = events(answer)
        places = [await the_first(stream, topic, "logEntry") for _ in range(2)]
    assert [one.data["data"]["message"] for one in places] == ["one", "two"]
    await writer.write("three")
    async with following(gateway, topic, after=[str(places[0].id)]) as answer:
        stream = events(answer)
        again = [await the_first(stream, topic, "logEntry") for _ in range(2)]
    assert [one.data["data"]["message"] for one in again] == ["two", "three"]
    # As a browser comes back by itself; and there is an end.
    await apply(store, run_id, CancelRun())
    async with following(gateway, topic, last=str(again[0].id)) as answer:
        rest = [event async for event in events(answer)]
    assert next(one.data["data"]["message"] for one in rest if one.data["event"] == "logEntry") == "three"
    assert [one.data["event"] for one in rest[-2:]] == ["end", "over"]


async def test_all_come_back_where_they_were(gateway: Live, store: Store) -> None:
    run_id = await submit(gateway.client)
    async with following(gateway, "runs", f"events:{run_id}") as answer:
        stream = events(answer)
        places = [
            str((await the_first(stream, "runs", "runs")).id),
            str((await the_first(stream, f"events:{run_id}", "message")).id),
        ]
    missed = await submit(gateway.client)
    await apply(store, run_id, CancelRun())
    async with following(gateway, "runs", f"events:{run_id}", after=places) as answer:
        stream = events(answer)
        told: list[str] = []
        seqs: list[str] = []
        async for event in stream:
            if event.name == "runs":
                told += [run["run_id"] for run in event.data["data"]["runs"]]
            elif event.data["event"] == "message":
                seqs.append(str(event.id).partition("~")[2])
            elif event.data["event"] == "over":
                break
    assert set(told) == {missed, run_id}
    assert seqs[0] == "2"


async def test_a_topic_that_is_refused_says_so_and_the_others_go_on(gateway: Live) -> None:
    nobody = "run:00000000-0000-4000-8000-000000000000"
    async with following(gateway, nobody, "run:rubbish", "runs", after=["runs~rubbish"]) as answer:
        stream = events(answer)
        refused = {}
        async for event in stream:
            refused[event.name] = event.data["data"]["status"]
            assert event.data["event"] == "refused"
            assert event.data["data"]["message"]
            if len(refused) == 3:
                break
    assert refused == {nobody: 404, "run:rubbish": 404, "runs": 422}


async def test_a_reader_that_lags_behind_is_let_go_and_comes_back(
    gateway: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_changes, "WAITING_RUNS_MAX", 0)
    async with following(gateway, "runs", "lists") as answer:
        stream = events(answer)
        await the_first(stream, "runs", "runs")
        await submit(gateway.client)
        async for _ in stream:
            pass  # ends, and does not say that there is no more
    await until(lambda: len(gateway.gateway.run_changes) == len(gateway.gateway.list_changes) == 0)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"topic": "nonsense"},
        {"topic": "run"},
        {"topic": "runs:x"},
        {"topic": "run:a b"},
        {"topic": [f"run:{number}" for number in range(TOPICS_MAX + 1)]},
        {"topic": "runs", "after": "no-mark"},
        {"topic": "runs", "timeout_sec": "0"},
        {"topic": "runs", "timeout_sec": "99999"},
    ],
)
async def test_what_cannot_be_read_is_refused(gateway: Live, query: dict[str, Any]) -> None:
    expect_error(await gateway.client.get("/stream", params=query), 422, "ERR-PYOCO-0002")


async def test_lists_that_change_are_named_and_only_those(gateway: Live, store: Store) -> None:
    async with following(gateway, "lists") as answer:
        stream = events(answer)
        opening = await the_first(stream, "lists", "lists")
        assert opening.data["data"] == {"changed": []}
        letter = DeadLetter(timestamp=1.0, reason="test", tag="default")
        assert await store.dead_letters.publish(letter, letter_id="one")
        told = await the_first(stream, "lists", "lists")
        assert told.data["data"] == {"changed": ["dead_letters"]}
    # What changed while nobody looked is told to whoever comes back with a place.
    schedule = {"cron": "0 3 * * *", "flow_name": "noop"}
    workflow = "version: 1\nflow:\n  graph: a\ntasks:\n  a:\n    callable: os:getcwd\n"
    made = await gateway.client.post(
        "/schedules/yaml", data=schedule, files={"workflow": ("flow.yaml", workflow)}
    )
    assert made.status_code == 200, made.text
    numbers = gateway.gateway.list_changes
    await until(lambda: numbers.place.split(".")[3] != "0")
    async with following(gateway, "lists", after=[str(told.id)]) as answer:
        first = await the_first(events(answer), "lists", "lists")
        assert first.data["data"] == {"changed": ["schedules"]}
    async with following(gateway, "lists", after=["lists~another.1.2.3.4.5"]) as answer:
        first = await the_first(events(answer), "lists", "lists")
        assert len(first.data["data"]["changed"]) == 5


async def test_after_a_broker_was_away_every_list_counts_as_changed(own_nats_server: NatsServer) -> None:
    async with live(config_on(own_nats_server)) as gateway, following(gateway, "lists") as answer:
        stream = events(answer)
        await the_first(stream, "lists", "lists")
        own_nats_server.kill()
        own_nats_server.start()
        changed: set[str] = set()
        async for event in stream:
            changed |= set(event.data["data"]["changed"])
            if changed >= {"dead_letters", "schedules", "wheels"}:
                return


async def test_a_topic_is_of_the_callers_tenant_and_scope(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "globex") as (_, (acme, globex)):
        run_id = await submit(acme)
        query: dict[str, Any] = {
            "topic": [f"run:{run_id}", f"log:{run_id}", f"events:{run_id}"],
            "timeout_sec": 1,
        }
        for client, wanted in ((globex, {"refused"}), (acme, {"snapshot", "message", "status"})):
            answer = await client.get("/stream", params=query)
            names = {
                line.split('"')[3] for line in answer.text.splitlines() if line.startswith('data: {"event"')
            }
            assert names == wanted


async def test_that_there_are_no_workers_is_told_too(gateway: Live) -> None:
    async with following(gateway, "workers") as answer:
        first = await the_first(events(answer), "workers", "workers")
        assert first.data["data"] == {"workers": [], "gone": [], "all": True}
