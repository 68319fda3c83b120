"""GET /runs/{id}/watch: snapshots pushed as they come, resumed without a gap, ended when there is no more."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.streaming import sse
from pyoco_server.lifecycle.commands import AddTag, CancelRun, EraseRun
from pyoco_server.operations.live import run_views
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.http_api.live import Event, Live, blocks, events, live
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import Flows, chain, one_task, waiting, working

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as started:
        yield started


async def watched(gateway: Live, run_id: str, **query: str | int | float) -> list[Event]:
    """All events until the stream ends by itself."""
    async with gateway.client.stream("GET", f"/runs/{run_id}/watch", params=query) as answer:
        return [event async for event in events(answer)]


async def resumed(gateway: Live, run_id: str, last_event_id: str | None) -> httpx.Response:
    headers = {"Last-Event-ID": last_event_id or ""}
    return await gateway.client.get(f"/runs/{run_id}/watch", params={"timeout_sec": 1}, headers=headers)


async def finished(gateway: Live, config: NatsBackendConfig, flow_name: str = "noop") -> str:
    async with working(config) as worker:
        run_id = await submit(gateway.client, flow_name)
        await worker.run_once(timeout=20.0)
    return run_id


async def tag(store: Store, run_id: str, name: str) -> None:
    await apply(store, run_id, AddTag(tag=name, tags_max=10_000))


async def test_a_run_is_followed_from_its_beginning_to_its_end(gateway: Live, store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    flows = Flows(waits=one_task(waiting(started, go_on)))
    async with working(store.config, flows) as worker:
        run_id = await submit(gateway.client, "waits")
        seen: list[Event] = []
        async with gateway.client.stream("GET", f"/runs/{run_id}/watch") as answer:
            async for event in events(answer):
                seen.append(event)
                if event.status == "PENDING":
                    working_on = asyncio.create_task(worker.run_once(timeout=20.0))
                elif event.data["snapshot"]["tasks"].get("only") == "RUNNING":
                    go_on.set()
        await working_on
    statuses = [event.status for event in seen]
    assert statuses == sorted(statuses, key=["PENDING", "RUNNING", "COMPLETED"].index)
    assert (statuses[0], statuses.count("COMPLETED"), statuses[-1]) == ("PENDING", 1, "COMPLETED")
    assert {event.name for event in seen} == {"snapshot"}
    assert len({event.id for event in seen}) == len(seen)
    assert all(set(event.data) == {"run_id", "snapshot", "ts"} for event in seen)
    assert all(event.data["run_id"] == event.data["snapshot"]["run_id"] == run_id for event in seen)
    assert abs(seen[-1].data["ts"] - time.time()) < 60
    shown = (await gateway.client.get(f"/runs/{run_id}")).json()
    assert {name: seen[-1].data["snapshot"][name] for name in shown if name in seen[-1].data["snapshot"]} == {
        name: value for name, value in shown.items() if name in seen[-1].data["snapshot"]
    }


async def test_the_stream_is_byte_for_byte_what_the_contract_says(gateway: Live, store: Store) -> None:
    run_id = await finished(gateway, store.config)
    async with gateway.client.stream("GET", f"/runs/{run_id}/watch") as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        assert "content-length" not in answer.headers
        opening, snapshot = [block async for block in blocks(answer)]
    assert opening == "retry: 1000"
    name, place, data = snapshot.split("\n")
    assert name == "event: snapshot"
    assert place.startswith("id: ")
    assert data.startswith('data: {"run_id":"' + run_id)
    assert json.loads(data.removeprefix("data: "))["snapshot"]["status"] == "COMPLETED"


async def test_records_come_when_they_are_asked_for(gateway: Live, store: Store) -> None:
    run_id = await finished(gateway, store.config)
    (plain,) = await watched(gateway, run_id)
    assert "task_records" not in plain.data["snapshot"]
    for include in ("records", "full", "all"):
        (detailed,) = await watched(gateway, run_id, include=include)
        assert detailed.data["snapshot"]["task_records"]["only"]["output"] == "done"
        assert detailed.id == plain.id


async def test_whoever_comes_back_gets_what_is_newer_and_nothing_twice(gateway: Live, store: Store) -> None:
    run_id = await submit(gateway.client, tag="nobody")
    (first,) = await watched(gateway, run_id, timeout_sec=1)
    assert [block async for block in blocks(await resumed(gateway, run_id, first.id))] == ["retry: 1000"]
    await tag(store, run_id, "one")
    await tag(store, run_id, "two")
    (second,) = [event async for event in events(await resumed(gateway, run_id, first.id))]
    assert second.data["snapshot"]["tags"] == ["nobody", "one", "two"]
    query = {"timeout_sec": "1", "last_event_id": str(second.id)}
    assert await watched(gateway, run_id, **query) == []


async def test_past_the_end_of_a_finished_run_there_is_nothing(gateway: Live, store: Store) -> None:
    run_id = await finished(gateway, store.config)
    (last,) = await watched(gateway, run_id)
    answer = await resumed(gateway, run_id, last.id)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["cache-control"] == "no-store"
    assert "content-type" not in answer.headers
    later = {"since": last.data["snapshot"]["updated_at"] + 1}
    assert (await gateway.client.get(f"/runs/{run_id}/watch", params=later)).status_code == 204
    assert len(gateway.gateway.run_views) == 0


async def test_a_change_after_the_end_is_still_news(gateway: Live, store: Store) -> None:
    run_id = await finished(gateway, store.config)
    (last,) = await watched(gateway, run_id)
    await tag(store, run_id, "afterwards")
    (newer,) = [event async for event in events(await resumed(gateway, run_id, last.id))]
    assert newer.data["snapshot"]["tags"] == ["default", "afterwards"]


async def test_since_leaves_out_what_is_older(gateway: Live, store: Store) -> None:
    run_id = await submit(gateway.client, tag="nobody")
    now = (await gateway.client.get(f"/runs/{run_id}")).json()["updated_at"]
    assert len(await watched(gateway, run_id, since=now, timeout_sec=1)) == 1
    assert await watched(gateway, run_id, since=now + 3600, timeout_sec=1) == []


@pytest.mark.parametrize("event_id", ["x", "MQ", "A" * 600])
async def test_an_id_that_is_not_ours_is_refused(gateway: Live, event_id: str) -> None:
    run_id = await submit(gateway.client)
    answer = await resumed(gateway, run_id, event_id)
    assert expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["header", "Last-Event-ID"]
    assert event_id not in answer.text or event_id == "x"


async def test_an_id_of_another_run_or_a_cursor_is_refused(gateway: Live, store: Store) -> None:
    first, second = await finished(gateway, store.config), await finished(gateway, store.config)
    (event,) = await watched(gateway, first)
    expect_error(await resumed(gateway, second, event.id), 422, "ERR-PYOCO-0002")
    page = (await gateway.client.get("/runs", params={"cursor": "", "limit": 1})).json()
    expect_error(await resumed(gateway, first, page["next_cursor"]), 422, "ERR-PYOCO-0002")
    answer = await gateway.client.get("/runs", params={"cursor": str(event.id)})
    expect_error(answer, 422, "ERR-PYOCO-0017")


BAD_QUERIES = [
    ("timeout_sec", ["0", "601", "-1", "x", "", "1.5", "1e2", "nan"]),
    ("since", ["nan", "inf", "-inf", "x", ""]),
    ("include", ["everything"]),
]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, bad in BAD_QUERIES for value in bad])
async def test_a_wrong_question_is_refused_before_the_stream(gateway: Live, name: str, value: str) -> None:
    run_id = await submit(gateway.client)
    answer = await gateway.client.get(f"/runs/{run_id}/watch", params={name: value})
    assert expect_error(answer, 422, "ERR-PYOCO-0002")["detail"][0]["loc"] == ["query", name]


async def test_a_run_that_is_not_there_is_404_before_the_stream(gateway: Live, store: Store) -> None:
    erased = await finished(gateway, store.config)
    await apply(store, erased, EraseRun())
    for run_id in (NOBODY, "no id", erased):
        expect_error(await gateway.client.get(f"/runs/{run_id}/watch"), 404, "ERR-PYOCO-0005")
    assert len(gateway.gateway.run_views) == 0


async def test_a_quiet_stream_says_that_it_lives(gateway: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sse.KEEP_ALIVE_SEC == 15.0
    monkeypatch.setattr(sse, "KEEP_ALIVE_SEC", 0.02)
    run_id = await submit(gateway.client, tag="nobody")
    first, *beats = await watched(gateway, run_id, timeout_sec=1)
    assert first.name == "snapshot"
    assert len(beats) > 1
    assert {(event.name, event.id) for event in beats} == {("heartbeat", None)}
    assert all(set(event.data) == {"run_id", "ts"} for event in beats)


async def test_a_cancel_is_seen_at_once(gateway: Live, store: Store) -> None:
    run_id = await submit(gateway.client, tag="nobody")
    async with gateway.client.stream("GET", f"/runs/{run_id}/watch") as answer:
        coming = events(answer)
        assert (await anext(coming)).status == "PENDING"
        await apply(store, run_id, CancelRun())
        assert [event.status async for event in coming] == ["CANCELLED"]


async def test_a_run_that_is_erased_ends_its_streams(gateway: Live, store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    async with working(store.config, Flows(waits=one_task(waiting(started, go_on)))) as worker:
        run_id = await submit(gateway.client, "waits")
        async with gateway.client.stream("GET", f"/runs/{run_id}/watch") as answer:
            coming = events(answer)
            await anext(coming)
            go_on.set()
            await worker.run_once(timeout=20.0)
            rest = [event.status async for event in coming]
    await apply(store, run_id, EraseRun())
    assert rest[-1] == "COMPLETED"
    expect_error(await gateway.client.get(f"/runs/{run_id}/watch"), 404, "ERR-PYOCO-0005")


async def test_many_who_watch_one_run_cost_one_read(gateway: Live, store: Store) -> None:
    run_id = await submit(gateway.client, tag="nobody")
    loads: list[str] = []
    load = gateway.gateway.store.runs.load

    async def counted(wanted: str, **how: bool) -> object:
        loads.append(wanted)
        return await load(wanted, **how)

    gateway.gateway.store.runs.load = counted  # type: ignore[method-assign, assignment]
    watching = [asyncio.create_task(watched(gateway, run_id)) for _ in range(30)]
    await until(lambda: len(gateway.gateway.streams) == 30)
    assert len(gateway.gateway.run_views) == 1
    await tag(store, run_id, "mark")
    await apply(store, run_id, CancelRun())
    seen = await asyncio.gather(*watching)
    assert loads == [run_id]
    assert {one[-1].status for one in seen} == {"CANCELLED"}
    assert len({one[-1].id for one in seen}) == 1
    await until(lambda: len(gateway.gateway.run_views) == 0)
    assert gateway.gateway.read_model.notifications._followers == {}


async def test_whoever_leaves_is_forgotten(gateway: Live) -> None:
    run_id = await submit(gateway.client, tag="nobody")
    async with gateway.client.stream("GET", f"/runs/{run_id}/watch") as answer:
        await anext(events(answer))
        assert len(gateway.gateway.streams) == 1
    await until(lambda: len(gateway.gateway.streams) == 0)
    assert len(gateway.gateway.run_views) == 0


async def test_a_gateway_that_stops_ends_its_streams_at_once(gateway: Live) -> None:
    run_id = await submit(gateway.client, tag="nobody")
    watching = [asyncio.create_task(watched(gateway, run_id, timeout_sec=600)) for _ in range(5)]
    await until(lambda: len(gateway.gateway.streams) == 5)
    gateway.gateway.streams.end()
    async with asyncio.timeout(5):
        assert [len(seen) for seen in await asyncio.gather(*watching)] == [1] * 5


async def test_a_reader_that_takes_nothing_is_let_go(
    gateway: Live, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SLOW_READER_SEC", 0.2)
    run_id = await submit(gateway.client, tag="nobody", params={"large": "x" * 150_000})
    with socket.create_connection(("127.0.0.1", gateway.port)) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(f"GET /runs/{run_id}/watch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await until(lambda: len(gateway.gateway.streams) == 1)
        number = 0
        while len(gateway.gateway.streams):
            number += 1
            assert number < 500
            await tag(store, run_id, f"t{number}")
            await asyncio.sleep(run_views.NOTIFY_INTERVAL_SEC)
    assert len(gateway.gateway.run_views) == 0


async def test_a_run_with_many_tasks_is_not_shown_more_often_than_anybody_looks(
    gateway: Live, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_views, "NOTIFY_INTERVAL_SEC", 3600.0)
    flows = Flows(many=chain(*(lambda: None for _ in range(10))))
    async with working(store.config, flows) as worker:
        run_id = await submit(gateway.client, "many")
        watching = asyncio.create_task(watched(gateway, run_id))
        await until(lambda: len(gateway.gateway.streams) == 1)
        await worker.run_once(timeout=20.0)
        seen = await watching
    assert len(seen) <= 3
    assert seen[-1].data["snapshot"]["tasks"] == {f"t{n}": "SUCCEEDED" for n in range(1, 11)}


async def test_head_has_the_headers_and_no_stream(gateway: Live) -> None:
    run_id = await submit(gateway.client)
    answer = await gateway.client.head(f"/runs/{run_id}/watch")
    assert answer.headers["cache-control"] == "no-store"
    await until(lambda: len(gateway.gateway.run_views) == 0)
