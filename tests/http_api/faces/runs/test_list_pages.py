"""GET /runs in pages: `updated_after`, `cursor`, `workflow_yaml_sha256`, while everything changes."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import httpx
import pytest

from pyoco_server.lifecycle.commands import AddTag, CancelRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.query import page_of_runs
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.operations.runs.submit import submit as submitted
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.log import new_commit_id
from pyoco_server.store.store import Store
from tests.http_api.faces.runs.test_list import SUMMARY
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import a_submission, working

Query = dict[str, str | int | float]


async def page(client: httpx.AsyncClient, query: Query) -> dict[str, Any]:
    answer = await client.get("/runs", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert set(body) == {"items", "next_cursor"}
    return body


async def pages(client: httpx.AsyncClient, query: Query) -> list[dict[str, Any]]:
    """All items, page by page."""
    body = await page(client, query)
    items = list(body["items"])
    while body["next_cursor"] is not None:
        body = await page(client, query | {"cursor": body["next_cursor"]})
        items += body["items"]
    return items


async def test_an_empty_system_has_an_empty_page(client: httpx.AsyncClient) -> None:
    for query in ({"updated_after": 0}, {"cursor": ""}, {"workflow_yaml_sha256": "x"}):
        assert await page(client, dict(query)) == {"items": [], "next_cursor": None}


async def test_the_form_is_a_matter_of_what_is_asked(client: httpx.AsyncClient) -> None:
    run_id = await submit(client)
    for query in ({}, {"limit": 5}, {"status": "PENDING"}, {"workflow_yaml_sha256": ""}):
        (item,) = (await client.get("/runs", params=query)).json()
        assert item["run_id"] == run_id
    (item,) = (await page(client, {"updated_after": 0}))["items"]
    assert set(item) == SUMMARY
    (item,) = (await page(client, {"updated_after": 0, "include": "full"}))["items"]
    assert item["task_records"] == {}


async def test_pages_go_from_the_newest_to_the_oldest_and_end(client: httpx.AsyncClient) -> None:
    made = [await submit(client) for _ in range(11)][::-1]
    first = await page(client, {"updated_after": 0, "limit": 4})
    assert [item["run_id"] for item in first["items"]] == made[:4]
    found = await pages(client, {"updated_after": 0, "limit": 4})
    assert [item["run_id"] for item in found] == made
    assert [item["run_id"] for item in await pages(client, {"cursor": "", "limit": 11})] == made


async def test_only_what_was_updated_after_an_instant_comes(client: httpx.AsyncClient, store: Store) -> None:
    old, waits = await submit(client, tag="nobody"), await submit(client)
    instant = (await client.get(f"/runs/{waits}")).json()["updated_at"]
    assert await pages(client, {"updated_after": instant}) == []
    async with working(store.config) as worker:
        await worker.run_once(timeout=20.0)
    new = await submit(client)
    found = await pages(client, {"updated_after": instant, "limit": 1})
    assert [item["run_id"] for item in found] == [new, waits]
    assert old not in str(found)


async def test_runs_are_found_by_their_yaml(client: httpx.AsyncClient, store: Store) -> None:
    same = [
        await store.runs.create(a_submission(workflow_yaml_sha256="abc"), new_commit_id()) for _ in range(3)
    ]
    await store.runs.create(a_submission(workflow_yaml_sha256="abd"), new_commit_id())
    await submit(client)
    found = await pages(client, {"workflow_yaml_sha256": "abc", "limit": 2})
    assert [item["run_id"] for item in found] == [stored.run.run_id for stored in reversed(same)]
    assert await pages(client, {"workflow_yaml_sha256": "abc", "status": "FAILED"}) == []


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf", "infinity", "soon", "", "2026-01-01"])
async def test_an_instant_that_is_none_is_refused(client: httpx.AsyncClient, value: str) -> None:
    answer = await client.get("/runs", params={"updated_after": value})
    refused = expect_error(answer, 422, "ERR-PYOCO-0017")
    assert refused["detail"][0]["loc"] == ["query", "updated_after"]
    assert refused["message"] == "The list query is not valid"


async def test_a_cursor_is_good_for_its_own_list_only(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await submit(client)
    query: Query = {"updated_after": 1.5, "limit": 1}
    cursor = (await page(client, query))["next_cursor"]
    await page(client, query | {"cursor": cursor})
    await page(client, {"updated_after": 1.5, "cursor": cursor, "limit": 200, "include": "full"})
    others: list[Query] = [
        {"cursor": cursor},
        {"cursor": cursor, "updated_after": 1.6},
        {"cursor": cursor, "updated_after": 1.5, "status": "PENDING"},
        {"cursor": cursor, "updated_after": 1.5, "flow": "noop"},
        {"cursor": cursor, "updated_after": 1.5, "tag": "default"},
        {"cursor": cursor, "updated_after": 1.5, "workflow_yaml_sha256": "x"},
        {"cursor": cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), "updated_after": 1.5},
        {"cursor": cursor + "A", "updated_after": 1.5},
        {"cursor": "x", "updated_after": 1.5},
    ]
    for other in others:
        answer = await client.get("/runs", params=other)
        assert expect_error(answer, 422, "ERR-PYOCO-0017")["detail"][0]["loc"] == ["query", "cursor"]
        assert str(other["cursor"]) not in answer.text or other["cursor"] == "x"


async def test_a_cursor_is_good_at_another_gateway(
    client: httpx.AsyncClient, store: Store, read_model: ReadModel
) -> None:
    made = [await submit(client) for _ in range(4)][::-1]
    cursor = (await page(client, {"cursor": "", "limit": 2}))["next_cursor"]
    runs, goes_on = await page_of_runs(store, read_model, Filter(), 9, cursor)
    assert ([run.run_id for run in runs], goes_on) == (made[2:], None)


async def test_a_tenant_pages_through_its_own_runs(store: Store, read_model: ReadModel) -> None:
    made: dict[str, list[str]] = {"ours": [], "theirs": []}
    for number in range(6):
        owner = "ours" if number % 2 else "theirs"
        stored = await submitted(store, Submission(flow_name="noop", tenant_id=owner))
        made[owner].insert(0, stored.run.run_id)
    runs, cursor = await page_of_runs(store, read_model, Filter(tenant="ours"), 2, None)
    assert cursor is not None
    rest, goes_on = await page_of_runs(store, read_model, Filter(tenant="ours"), 2, cursor)
    assert [run.run_id for run in runs + rest] == made["ours"]
    assert goes_on is None
    for foreign in (Filter(tenant="theirs"), Filter()):
        with pytest.raises(Exception, match="cursor is not one of this list"):
            await page_of_runs(store, read_model, foreign, 2, cursor)


@pytest.mark.parametrize("query", [{"updated_after": 0}, {"cursor": ""}])
async def test_nothing_is_lost_while_everybody_writes(
    client: httpx.AsyncClient, store: Store, query: Query
) -> None:
    """Writers change and submit runs all the while. Every run is shown, the last time as it is at the end."""
    known = [await submit(client, tag="nobody") for _ in range(40)]
    chance = random.Random(7)
    rounds = 0

    async def write() -> None:
        run_id = chance.choice(known)
        await apply(store, run_id, AddTag(tag=f"t{rounds}", tags_max=10_000))
        if chance.random() < 0.3:
            await apply(store, chance.choice(known), CancelRun())
        if chance.random() < 0.5:
            known.append(await submit(client, tag="nobody"))

    shown: dict[str, list[dict[str, Any]]] = {}
    cursor: str | None = None
    while cursor is not None or rounds == 0:
        body = await page(client, query | {"limit": 3} | ({"cursor": cursor} if cursor else {}))
        for item in body["items"]:
            shown.setdefault(item["run_id"], []).append(item)
        cursor = body["next_cursor"]
        rounds += 1
        if rounds < 40:
            await asyncio.gather(*(write() for _ in range(3)))
    assert set(shown) == set(known)
    for run_id, items in shown.items():
        assert all(one != other for one, other in pairwise(items))
        stored = await store.runs.load(run_id, at_leader=True)
        assert stored is not None
        assert (items[-1]["tags"], items[-1]["status"]) == (list(stored.run.tags), stored.run.status)
