"""GET /runs by submission or duration: ranges, retries of a run, and cursors of their own."""

from __future__ import annotations

import httpx
import pytest

from pyoco_server.store.store import Store
from tests.http_api.faces.runs.test_list_pages import Query, page, pages
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import working

ERROR = "ERR-PYOCO-0017"


async def submitted_at(client: httpx.AsyncClient, run_id: str) -> float:
    return float((await client.get(f"/runs/{run_id}")).json()["submitted_at"])


async def ids(client: httpx.AsyncClient, query: Query) -> list[str]:
    return [item["run_id"] for item in await pages(client, query)]


async def test_a_changed_run_keeps_its_place_by_submission(client: httpx.AsyncClient) -> None:
    made = [await submit(client) for _ in range(7)]
    await client.post(f"/runs/{made[0]}/cancel")
    assert await ids(client, {"sort": "-submitted", "limit": 2}) == made[::-1]
    assert await ids(client, {"sort": "submitted", "limit": 3}) == made
    assert (await ids(client, {"sort": "-updated", "limit": 3}))[0] == made[0]


async def test_a_range_of_submissions_has_the_neighbours_of_a_run(client: httpx.AsyncClient) -> None:
    made = [await submit(client, flow_name="one") for _ in range(5)]
    await submit(client, flow_name="other")
    at = await submitted_at(client, made[2])
    query: Query = {"flow": "one", "limit": 1}
    before = await page(client, query | {"submitted_before": at})
    after = await page(client, query | {"submitted_after": at, "sort": "submitted"})
    assert [one["items"][0]["run_id"] for one in (before, after)] == [made[1], made[3]]
    first, last = [await submitted_at(client, run_id) for run_id in (made[0], made[4])]
    between: Query = {"submitted_after": first, "submitted_before": last, "flow": "one"}
    assert await ids(client, between) == made[3:0:-1]


async def test_a_retry_is_found_by_the_run_that_it_retries(client: httpx.AsyncClient, store: Store) -> None:
    run_id = await submit(client)
    await client.post(f"/runs/{run_id}/cancel")
    retried = (await client.post(f"/runs/{run_id}/retry", json={"from": "start"})).json()["run_id"]
    [item] = (await page(client, {"retry_of": run_id}))["items"]
    assert (item["run_id"], item["retry_of"]) == (retried, run_id)
    assert await ids(client, {"retry_of": retried}) == []


async def test_durations_are_those_of_runs_that_have_started_and_ended(
    client: httpx.AsyncClient, store: Store
) -> None:
    made = [await submit(client) for _ in range(3)]
    waits = await submit(client, tag="no-worker")
    async with working(store.config) as worker:
        for _ in made:
            await worker.run_once(timeout=20.0)
    found = await pages(client, {"sort": "-duration", "limit": 2})
    assert {item["run_id"] for item in found} == set(made) - {waits}
    took = [item["end_time"] - item["start_time"] for item in found]
    assert took == sorted(took, reverse=True)


async def test_statuses_texts_and_instants_of_change_narrow_a_sorted_list(client: httpx.AsyncClient) -> None:
    kept, gone = await submit(client, tag="blue"), await submit(client, tag="red")
    await client.post(f"/runs/{gone}/cancel")
    by_submission: Query = {"sort": "-submitted"}
    assert await ids(client, by_submission | {"status": "PENDING"}) == [kept]
    assert await ids(client, by_submission | {"tag": "red"}) == [gone]
    assert await ids(client, by_submission | {"q": "BLU"}) == [kept]
    changed = (await client.get(f"/runs/{kept}")).json()["updated_at"]
    assert await ids(client, by_submission | {"updated_after": changed}) == [gone]


@pytest.mark.parametrize(
    "query",
    [
        {"sort": "name"},
        {"sort": ""},
        {"submitted_after": "nan"},
        {"submitted_before": "today"},
        {"sort": "-updated", "submitted_after": 1},
        {"sort": "-updated", "retry_of": "x"},
        {"sort": "submitted", "cursor": "made-up"},
    ],
)
async def test_what_cannot_be_sorted_is_refused(
    client: httpx.AsyncClient, query: dict[str, str | int]
) -> None:
    expect_error(await client.get("/runs", params=query), 422, ERROR)


async def test_a_cursor_is_for_one_order(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await submit(client)
    cursor = (await page(client, {"sort": "-submitted", "limit": 1}))["next_cursor"]
    others: list[Query] = [{"sort": "submitted"}, {}, {"sort": "-submitted", "submitted_after": 1}]
    for query in others:
        answer = await client.get("/runs", params=query | {"cursor": cursor})
        expect_error(answer, 422, ERROR)
