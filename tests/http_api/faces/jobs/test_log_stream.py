"""GET /jobs/{id}/logs/stream: every line once, pushed, resumed without a gap, ended when there is no more."""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.streaming import sse
from pyoco_server.lifecycle.commands import EraseRun
from pyoco_server.operations.logs import follower, views
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.faces.jobs.test_jobs import created, ended, refused
from tests.http_api.live import Event, Live, events, live
from tests.http_api.tenants import as_tenants
from tests.log_writing import Writer
from tests.worker.stage import Flows, config_on, one_task, waiting, working


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as started:
        yield started


class Reader:
    """One stream, read in the background; `lines` are what it was told of the log."""

    def __init__(self, gateway: Live, job: str, last_event_id: str | None = None, **query: str) -> None:
        self._gateway = gateway
        self._job = job
        self._headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        self._query = query
        self.seen: list[Event] = []
        self.status = 0

    async def __aenter__(self) -> Reader:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def ended(self) -> None:
        async with asyncio.timeout(30):
            await self._reading

    @property
    def lines(self) -> list[Event]:
        return [event for event in self.seen if event.name == "logEntry"]

    @property
    def messages(self) -> list[str]:
        return [event.data["message"] for event in self.lines]

    async def _read(self) -> None:
        path = f"/jobs/{self._job}/logs/stream"
        async with self._gateway.client.stream(
            "GET", path, headers=self._headers, params=self._query
        ) as answer:
            self.status = answer.status_code
            if answer.status_code == 200:
                async for event in events(answer):
                    self.seen.append(event)


async def read_to_the_end(gateway: Live, job: str, last_event_id: str | None = None, **query: str) -> Reader:
    async with Reader(gateway, job, last_event_id, **query) as reader:
        await reader.ended()
    return reader


@pytest.fixture
async def job(gateway: Live) -> str:
    return str((await created(gateway.client))["id"])


async def test_what_was_printed_is_replayed_and_what_is_printed_is_pushed(
    gateway: Live, job: str, store: Store
) -> None:
    writer = Writer(store, job)
    await writer.write("one", "two")
    async with Reader(gateway, job) as reader:
        await until(lambda: len(reader.lines) == 2)
        await writer.write("three")
        await until(lambda: len(reader.lines) == 3)
        await gateway.client.delete(f"/jobs/{job}")
        await reader.ended()
    assert reader.messages[:3] == ["one", "two", "three"]
    page = (await gateway.client.get(f"/jobs/{job}/logs")).json()
    assert [event.data for event in reader.lines] == page["entries"]
    assert reader.lines[-1].id == page["nextToken"]
    first, *_, status, end = reader.seen
    assert (first.name, first.data["status"], first.id) == ("status", "pending", None)
    assert (status.name, status.data["status"], status.id) == ("status", "canceled", None)
    assert (end.name, end.data, end.id) == ("end", status.data, page["nextToken"])


async def test_headers_say_that_it_is_a_stream(gateway: Live, job: str) -> None:
    async with gateway.client.stream("GET", f"/jobs/{job}/logs/stream") as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
        assert "content-length" not in answer.headers
    head = await gateway.client.head(f"/jobs/{job}/logs/stream")
    assert (head.status_code, head.content) == (200, b"")
    await until(lambda: len(gateway.gateway.log_views) == 0)


async def test_a_reader_that_comes_back_misses_nothing_and_reads_nothing_twice(
    gateway: Live, job: str, store: Store
) -> None:
    writer = Writer(store, job)
    seen: list[int] = []
    token = None
    for number in range(8):
        async with Reader(gateway, job, token) as reader:
            await writer.write(*(f"{number}.{n}" for n in range(3)))
            await until(lambda: len(reader.lines) >= 2, within_sec=20)
            seen += [event.data["seq"] for event in reader.lines]
            token = reader.lines[-1].id
    rest = (await gateway.client.get(f"/jobs/{job}/logs", params={"sinceToken": token})).json()
    seen += [entry["seq"] for entry in rest["entries"]]
    assert seen == list(range(1, 25))


async def test_a_token_of_a_page_begins_a_stream(gateway: Live, job: str, store: Store) -> None:
    await Writer(store, job).write("one", "two", "three")
    page = (await gateway.client.get(f"/jobs/{job}/logs?limit=1")).json()
    await gateway.client.delete(f"/jobs/{job}")
    reader = await read_to_the_end(gateway, job, sinceToken=page["nextToken"])
    assert reader.messages[:2] == ["two", "three"]
    # The header is what a browser has read last; the address is where it began.
    reader = await read_to_the_end(gateway, job, reader.lines[0].id, sinceToken=page["nextToken"])
    assert reader.messages[0] == "three"


async def test_after_the_end_there_is_nothing_more(
    gateway: Live, config: NatsBackendConfig, store: Store
) -> None:
    async with working(config, Flows(main=one_task(lambda: None))) as worker:
        job = (await created(gateway.client))["id"]
        await worker.run_once(timeout=20.0)
        await ended(gateway.client, job)
    reader = await read_to_the_end(gateway, job)
    assert reader.messages[-1] == "run completed"
    last = reader.seen[-1].id or ""
    for query, headers in (({}, {"Last-Event-ID": last}), ({"sinceToken": last}, {})):
        answer = await gateway.client.get(f"/jobs/{job}/logs/stream", params=query, headers=headers)
        assert (answer.status_code, answer.content) == (204, b"")
    again = await read_to_the_end(gateway, job, reader.lines[-2].id)
    assert [event.name for event in again.seen] == ["status", "logEntry", "end"]


async def test_a_finished_job_that_printed_nothing_ends_for_good(
    gateway: Live, job: str, store: Store
) -> None:
    await gateway.client.delete(f"/jobs/{job}")
    await store.logs.erase(job)
    reader = await read_to_the_end(gateway, job)
    assert [event.name for event in reader.seen] == ["status", "end"]
    assert (await read_to_the_end(gateway, job, reader.seen[-1].id)).status == 204


async def test_what_is_refused_is_refused_before_the_stream(gateway: Live, job: str) -> None:
    path = f"/jobs/{job}/logs/stream"
    refused(await gateway.client.get(f"/jobs/{uuid.uuid4()}/logs/stream"), 404, "JOB_NOT_FOUND")
    refused(await gateway.client.get("/jobs/no.body/logs/stream"), 404, "JOB_NOT_FOUND")
    refused(await gateway.client.get(path, headers={"Accept": "application/json"}), 406, "NOT_ACCEPTABLE")
    refused(await gateway.client.get(path, params={"sinceToken": "x"}), 400, "INVALID_TOKEN")


async def test_an_id_that_is_of_no_use_replays_from_the_start(gateway: Live, job: str, store: Store) -> None:
    await Writer(store, job).write("one")
    await gateway.client.delete(f"/jobs/{job}")
    other = (await gateway.client.get(f"/jobs/{(await created(gateway.client))['id']}/logs")).json()
    for last_event_id in ("x", "7", other["nextToken"]):
        assert (await read_to_the_end(gateway, job, last_event_id)).messages[0] == "one"


async def test_lines_that_retention_took_are_said_to_be_missing(
    gateway: Live, job: str, store: Store
) -> None:
    writer = Writer(store, job)
    for number in range(4):
        await writer.write(str(number))
    await writer.cut_front(2)
    await gateway.client.delete(f"/jobs/{job}")
    reader = await read_to_the_end(gateway, job)
    assert [event.name for event in reader.seen[:3]] == ["status", "truncated", "logEntry"]
    assert (reader.seen[1].data, reader.messages[:2]) == ({"from": 3}, ["2", "3"])


async def test_status_is_told_when_it_changes_and_the_end_after_the_last_line(
    gateway: Live, config: NatsBackendConfig
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    async with working(config, Flows(main=one_task(waiting(begun, go_on)))) as worker:
        job = (await created(gateway.client))["id"]
        async with Reader(gateway, job) as reader:
            await until(lambda: reader.seen)
            performing = asyncio.create_task(worker.run_once(timeout=20.0))
            await until(begun.is_set)
            await gateway.client.post(f"/jobs/{job}/tags", json={"tag": "seen"})
            await until(lambda: any(event.data.get("tags") == ["seen"] for event in reader.seen))
            go_on.set()
            await performing
            await reader.ended()
    statuses = [event.data["status"] for event in reader.seen if event.name == "status"]
    assert list(dict.fromkeys(statuses)) == ["pending", "running", "completed"]
    assert [event.name for event in reader.seen[-3:]] == ["logEntry", "status", "end"]


async def test_many_follow_one_job_and_who_stops_reading_hurts_nobody(
    gateway: Live, job: str, store: Store
) -> None:
    lazy = socket.create_connection(("127.0.0.1", gateway.port))
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    lazy.sendall(f"GET /jobs/{job}/logs/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    writer = Writer(store, job)
    readers = [Reader(gateway, job) for _ in range(30)]
    try:
        for reader in readers:
            await reader.__aenter__()
        await until(lambda: all(reader.seen for reader in readers))
        for number in range(20):
            await writer.write(*(f"{number} " + "x" * 4_000 for _ in range(10)))
        await until(lambda: all(len(reader.lines) == 200 for reader in readers), within_sec=60)
        assert len(gateway.gateway.log_views) == 1
    finally:
        lazy.close()
        await asyncio.gather(*(reader.__aexit__() for reader in readers))
    await until(lambda: len(gateway.gateway.log_views) == 0)


async def test_a_reader_that_takes_nothing_is_let_go_and_comes_back(
    gateway: Live, job: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SLOW_READER_SEC", 0.3)
    lazy = socket.create_connection(("127.0.0.1", gateway.port))
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    lazy.sendall(f"GET /jobs/{job}/logs/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await until(lambda: len(gateway.gateway.streams) == 1)
    writer = Writer(store, job)
    for _ in range(80):
        await writer.write(*("x" * 8_000 for _ in range(10)))
    await until(lambda: len(gateway.gateway.streams) == 0)
    lazy.close()
    await gateway.client.delete(f"/jobs/{job}")
    assert len((await read_to_the_end(gateway, job)).lines) == 801


async def test_a_push_that_never_came_is_found_out(
    gateway: Live, job: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "LOOK_SEC", 0.2)
    monkeypatch.setattr(views.LogView, "_on_chunk", lambda self, chunk: None)
    async with Reader(gateway, job) as reader:
        await until(lambda: reader.seen)
        await Writer(store, job).write("missed")
        await until(lambda: reader.messages == ["missed"])


async def test_a_long_log_is_replayed_in_portions(
    gateway: Live, job: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "READ_AHEAD_BYTES", 10_000)
    writer = Writer(store, job)
    for start in range(0, 3_000, 500):
        await writer.write(*map(str, range(start, start + 500)))
    await gateway.client.delete(f"/jobs/{job}")
    reader = await read_to_the_end(gateway, job)
    assert reader.messages[:3_000] == [str(number) for number in range(3_000)]
    middle = await read_to_the_end(gateway, job, reader.lines[1_234].id)
    assert middle.messages[0] == "1235"


async def test_streams_go_on_when_the_broker_comes_back(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server)
    async with live(config) as gateway:
        job = (await created(gateway.client))["id"]
        store = await Store.connect(config, name="test")
        writer = Writer(store, job)
        async with Reader(gateway, job) as reader:
            await writer.write("before")
            await until(lambda: reader.messages == ["before"])
            own_nats_server.kill()
            await until(lambda: not store.is_connected)
            own_nats_server.start()
            await until(lambda: store.why_not_ready is None, within_sec=60)
            await writer.write("after")
            await until(lambda: reader.messages == ["before", "after"], within_sec=60)
        await store.close()


async def test_a_purge_ends_the_stream(gateway: Live, job: str, store: Store) -> None:
    begun = await created(gateway.client)
    async with Reader(gateway, begun["id"]) as reader:
        await until(lambda: reader.seen)
        await gateway.client.delete(f"/jobs/{begun['id']}")
        await apply(store, begun["id"], EraseRun())
        await reader.ended()


async def test_the_runs_face_streams_the_same_lines(gateway: Live, job: str, store: Store) -> None:
    await Writer(store, job).write("one")
    await gateway.client.delete(f"/jobs/{job}")
    async with gateway.client.stream("GET", f"/runs/{job}/logs/stream") as answer:
        seen: list[Any] = [event async for event in events(answer)]
    assert [event.name for event in seen] == ["status", "logEntry", "logEntry", "end"]
    assert (seen[0].data["status"], seen[1].data["message"]) == ("CANCELLED", "one")
    answer = await gateway.client.get(f"/runs/{job}/logs/stream?since_token=x")
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")


async def test_a_tenant_follows_its_own_jobs_only(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "one", "two") as (_, (one, two)):
        job = (await created(one))["id"]
        answer: httpx.Response = await two.get(f"/jobs/{job}/logs/stream")
        refused(answer, 404, "JOB_NOT_FOUND")
