"""Logs of which no line is stored, over HTTP: they are read like others, in the same bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.commands import AddTag, EraseRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.store import Store
from tests.http_api.faces.jobs.test_jobs import created, ended
from tests.http_api.faces.jobs.test_log_stream import Reader, read_to_the_end
from tests.http_api.live import Live, live
from tests.log_writing import Writer
from tests.worker.stage import Flows, chain, working

LINES, TEXT = {"Accept": "application/x-ndjson"}, {"Accept": "text/plain"}
COUNT = 6


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as started:
        yield started


@pytest.fixture
async def client(gateway: Live) -> httpx.AsyncClient:
    return gateway.client


@pytest.fixture
async def job(client: httpx.AsyncClient, config: NatsBackendConfig, store: Store) -> str:
    """It has ended and printed nothing."""
    async with working(config, Flows(main=chain(lambda: 1, lambda: 2))) as worker:
        job = str((await created(client))["id"])
        await worker.run_once(timeout=20.0)
        await ended(client, job)
    assert (await store.logs.end(job)).lines == 0
    return job


async def page_of(client: httpx.AsyncClient, job: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(f"/jobs/{job}/logs", params=query)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def numbers(page: dict[str, Any]) -> list[int]:
    return [entry["seq"] for entry in page["entries"]]


def as_lines(entries: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in entries)


async def test_pages_have_every_line_once_and_the_last_one_is_complete(
    client: httpx.AsyncClient, job: str
) -> None:
    whole = await page_of(client, job)
    assert (numbers(whole), whole["complete"], whole["truncated"]) == ([*range(1, COUNT + 1)], True, False)
    assert whole["entries"][-1]["message"] == "run completed"
    seen: list[dict[str, Any]] = []
    page = await page_of(client, job, limit=4)
    while page["entries"]:
        assert page["complete"] == (len(seen) + len(page["entries"]) == COUNT)
        seen += page["entries"]
        page = await page_of(client, job, limit=4, sinceToken=page["nextToken"])
    assert seen == whole["entries"]
    assert numbers(await page_of(client, job, tail=2)) == [COUNT - 1, COUNT]
    assert numbers(await page_of(client, job, fromLine=3, limit=2)) == [3, 4]
    assert numbers(await page_of(client, job, fromLine=COUNT + 1)) == []
    assert numbers(await page_of(client, job, task="t2")) == [4, 5]
    assert numbers(await page_of(client, job, q="run comp")) == [COUNT]
    over_runs = (await client.get(f"/runs/{job}/logs")).json()
    assert over_runs["entries"] == whole["entries"]


@pytest.mark.parametrize("kind", [LINES, TEXT], ids=["lines", "text"])
async def test_it_is_a_file_with_ranges_and_a_tag(
    client: httpx.AsyncClient, job: str, store: Store, kind: dict[str, str]
) -> None:
    path = f"/jobs/{job}/logs"
    whole = await client.get(path, headers=kind)
    entries = (await page_of(client, job))["entries"]
    texts = "".join(f"{entry['message']}\n" for entry in entries).encode()
    assert whole.content == (as_lines(entries) if kind is LINES else texts)
    size, tag = len(whole.content), whole.headers["etag"]
    assert int(whole.headers["content-length"]) == size
    for start, stop in ((0, 0), (7, 40), (size - 5, size - 1)):
        ranged = {"Range": f"bytes={start}-{stop}", "If-Range": tag}
        part = await client.get(path, headers=kind | ranged)
        assert (part.status_code, part.content) == (206, whole.content[start : stop + 1])
        assert part.headers["content-range"] == f"bytes {start}-{stop}/{size}"
    resumed = await client.get(path, headers=kind | {"Range": f"bytes={size}-"})
    assert (resumed.status_code, resumed.headers["content-range"]) == (416, f"bytes */{size}")
    await apply(store, job, AddTag(tag="later", tags_max=100))
    same = await client.get(path, headers=kind | {"If-None-Match": tag})
    assert same.status_code == 304, "what happens to the run after its end does not change its log"


async def test_streams_replay_it_resume_it_and_end(gateway: Live, job: str) -> None:
    page = await page_of(gateway.client, job)
    reader = await read_to_the_end(gateway, job)
    assert [event.data for event in reader.lines] == page["entries"]
    assert reader.seen[-1].name == "end"
    assert reader.seen[-1].id == reader.lines[-1].id == page["nextToken"]
    rest = await read_to_the_end(gateway, job, reader.lines[2].id)
    assert [event.data for event in rest.lines] == page["entries"][3:]
    assert (await read_to_the_end(gateway, job, page["nextToken"])).status == 204


async def test_who_follows_from_the_beginning_sees_all_of_it(
    gateway: Live, config: NatsBackendConfig, store: Store
) -> None:
    job = str((await created(gateway.client))["id"])
    async with Reader(gateway, job) as reader:
        async with working(config, Flows(main=chain(lambda: 1, lambda: 2))) as worker:
            await worker.run_once(timeout=20.0)
        await reader.ended()
    assert (await store.logs.end(job)).lines == 0
    page = await page_of(gateway.client, job)
    assert [event.data for event in reader.lines] == page["entries"]
    assert len(reader.lines) == COUNT


async def test_stored_lines_are_the_log_even_if_the_end_says_that_there_are_none(
    client: httpx.AsyncClient, job: str, store: Store
) -> None:
    """Lines that came after the end are stored behind the same lines: none is shown twice."""
    writer = Writer(store, job)
    await writer.write("one", "two")
    assert [entry["message"] for entry in (await page_of(client, job))["entries"]] == ["one", "two"]


async def test_an_erased_run_has_no_log(client: httpx.AsyncClient, job: str, store: Store) -> None:
    await apply(store, job, EraseRun())
    assert (await client.get(f"/jobs/{job}/logs")).status_code == 404


async def test_a_stored_log_that_has_expired_is_not_made_again(
    client: httpx.AsyncClient, config: NatsBackendConfig, store: Store
) -> None:
    """As the logs of earlier versions, which have their notices in chunks."""
    async with working(config, Flows(main=chain(lambda: sys.stdout.write("one\n"), lambda: 2))) as worker:
        job = str((await created(client))["id"])
        await worker.run_once(timeout=20.0)
        await ended(client, job)
    page = await page_of(client, job)
    assert len(page["entries"]) == COUNT + 1
    await store.logs.erase(job)
    assert (await page_of(client, job))["entries"] == []
    gone = await page_of(client, job, sinceToken=page["nextToken"])
    assert (gone["entries"], gone["truncated"]) == ([], True)
