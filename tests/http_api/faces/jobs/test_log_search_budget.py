"""Searches of logs: a budget for each, a limit of how many at once, and nothing that holds up the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Invalid
from pyoco_server.operations.logs.search import LogSearch, Sought
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.http_api.holding import HOLD_SEC_MAX, held
from tests.http_api.live import Live, live
from tests.http_api.serving import submit
from tests.log_writing import Writer

# The dearest patterns that are accepted: their cost is the text times their size.
DEAR = "(?:a?){600}a{600}b"
TOO_DEAR = "(?:a?){900}a{900}b"
COMPILE_SEC_MAX = 0.025


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Live]:
    async with live(config) as one:
        yield one


async def written(gateway: Live, store: Store, lines: int, text: str) -> str:
    run_id = await submit(gateway.client)
    writer = Writer(store, run_id)
    for first in range(0, lines, 200):
        await writer.write(*[text] * min(200, lines - first))
    return run_id


async def page_of(gateway: Live, run_id: str, **query: Any) -> dict[str, Any]:
    answer = await gateway.client.get(f"/runs/{run_id}/logs", params=query)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def test_a_dear_pattern_does_not_hold_up_the_gateway(gateway: Live, store: Store) -> None:
    run_id = await written(gateway, store, 400, "a" * 900)
    with held() as holds:
        await page_of(gateway, run_id, q=DEAR, regex="true")
    assert holds.worst_sec < HOLD_SEC_MAX


async def test_many_dear_searches_at_once_do_not_hold_it_up_either(gateway: Live, store: Store) -> None:
    run_id = await written(gateway, store, 400, "a" * 900)
    with held() as holds:
        pages = await asyncio.gather(
            *(page_of(gateway, run_id, q=q, regex="true") for q in (DEAR, DEAR + "?", "(?i)" + DEAR)),
            page_of(gateway, run_id, q="b"),
        )
    assert holds.worst_sec < HOLD_SEC_MAX
    assert all(page["searched"]["to_line"] >= 1 for page in pages)


@pytest.mark.parametrize("face", ["runs", "jobs"])
@pytest.mark.parametrize("pattern", [TOO_DEAR, "(?:.?){900}.{900}Z", r"\pL{200}", "a{1001}"])
async def test_a_pattern_that_is_too_large_is_refused_with_what_to_change(
    gateway: Live, store: Store, pattern: str, face: str
) -> None:
    run_id = await written(gateway, store, 1, "a")
    answer = await gateway.client.get(f"/{face}/{run_id}/logs", params={"q": pattern, "regex": "true"})
    assert answer.status_code == 422
    assert "Use smaller counted repetitions" in answer.text


@pytest.mark.parametrize(
    ("budget", "lines"),
    [({"log_search_sec": 0.05}, 60), ({"log_search_max_bytes": 1}, 600)],
    ids=["time", "bytes"],
)
async def test_a_search_over_its_budget_says_how_far_it_got_and_goes_on_from_there(
    config: NatsBackendConfig,
    store: Store,
    budget: dict[str, Any],
    lines: int,
    request: pytest.FixtureRequest,
) -> None:
    async with live(replace(config, **budget)) as gateway:
        run_id = await written(gateway, store, lines, "a" * 900)
        kind = request.node.callspec.id
        pattern = f"{DEAR}|a$" if kind == "time" else "a$"
        token, found = None, []
        pages: list[dict[str, Any]] = []
        while not pages or pages[-1]["searched"]["to_line"] < lines:
            page = await page_of(
                gateway,
                run_id,
                q=pattern,
                regex="true",
                limit=5_000,
                **({"since_token": token} if token else {}),
            )
            assert page["next_token"] != token
            assert page["searched"]["lines"] == lines
            token = page["next_token"]
            found += [entry["seq"] for entry in page["entries"]]
            pages.append(page)
        assert found == list(range(1, lines + 1))
        assert len(pages) > 1
        assert [page["searched"]["paused_by"] for page in pages] == [kind] * (len(pages) - 1) + [None]
        last = await page_of(gateway, run_id, q=pattern, regex="true", since_token=token)
        assert (last["next_token"], last["entries"]) == (token, [])


async def test_a_page_without_a_search_says_nothing_of_one(gateway: Live, store: Store) -> None:
    run_id = await written(gateway, store, 1, "a")
    assert set(await page_of(gateway, run_id)) == {"entries", "next_token", "complete", "truncated"}


async def test_more_searches_at_once_than_allowed_are_told_to_come_back(
    config: NatsBackendConfig, store: Store
) -> None:
    few = replace(config, log_searches_per_caller=2, log_searches_max=2, log_search_sec=30.0)
    async with live(few) as gateway:
        run_id = await written(gateway, store, 2_000, "a" * 900)
        url, query = f"/jobs/{run_id}/logs", {"q": DEAR, "regex": "true"}
        concurrency = gateway.gateway.log_pages.searches.concurrency
        searching = [asyncio.create_task(gateway.client.get(url, params=query)) for _ in range(2)]
        await until(lambda: concurrency.under_way == 2)
        refused = await gateway.client.get(url, params=query)
        assert refused.status_code == 429
        assert "PYOCO_LOG_SEARCHES_PER_CALLER" in refused.text
        assert int(refused.headers["retry-after"]) >= 1
        assert (await gateway.client.get(url, params={"limit": 1})).status_code == 200
        for one in searching:  # the client hangs up
            one.cancel()
        await until(lambda: concurrency.under_way == 0, within_sec=5)
        assert (await gateway.client.get(url, params={"q": "b"})).status_code == 200


async def test_a_search_ends_when_its_client_has_gone(config: NatsBackendConfig, store: Store) -> None:
    async with live(replace(config, log_search_sec=600.0)) as gateway:
        run_id = await written(gateway, store, 2_000, "a" * 900)
        searches = gateway.gateway.log_pages.searches
        _, writing = await asyncio.open_connection("127.0.0.1", gateway.port)
        writing.write(
            f"GET /runs/{run_id}/logs?regex=true&q={DEAR} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        await until(lambda: searches.concurrency.under_way == 1)
        writing.close()
        await until(lambda: searches.concurrency.under_way == 0, within_sec=5)


@pytest.mark.parametrize(
    "pattern",
    [r"\p{Lu}\p{Ll}\p{Han}" * 13, r"(\pL|\pN|\pS){60}$", r"(\pL{9}|\pN{9}|\pS{9}){9}", r"\pL" * 330],
    ids=["classes", "repeated alternatives", "repeated repetitions", "many classes"],
)
def test_a_pattern_that_is_too_large_is_refused_before_it_is_compiled_whole(pattern: str) -> None:
    """RE2 holds the interpreter's lock meanwhile: no thread would help."""
    began = time.thread_time()
    with pytest.raises(Invalid, match="smaller counted repetitions"):
        LogSearch(Sought(pattern, is_pattern=True))
    assert time.thread_time() - began < COMPILE_SEC_MAX
