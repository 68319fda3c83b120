"""Lists of strategies: filters, orders, pages, totals; and entries that come, change and go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.read_model.recheck_queries import RecheckQueries
from pyoco_server.read_model.recheck_rows import erase_strategy, write_outcome, write_strategy
from pyoco_server.read_model.recheck_table import ORDERS, RecheckTable, StrategySearch
from pyoco_server.recheck.catalogue import Strategy, parse_catalogue
from pyoco_server.recheck.records import BatchOutcome, StrategyResult
from pyoco_server.recheck.thresholds import StrategyHealth
from tests.conftest import NatsServer
from tests.recheck.faces import expect_flat, recheck_config, recheck_face


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return recheck_config(nats_server, tmp_path)


@pytest.fixture
async def face(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    async with recheck_face(config) as client:
        yield client


async def ids(face: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await face.get("/gui/strategies", params={"sort": "id.asc"} | query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["total"] == len(body["items"])
    return [one["id"].removeprefix("strat.") for one in body["items"]]


FILTERS: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["a", "b", "c", "off"]),
    ({"q": "%"}, ["c"]),
    ({"q": "_"}, ["c"]),
    ({"q": "100% carry_trade"}, ["c"]),
    ({"q": "%carry"}, []),
    ({"q": "strat.a"}, ["a"]),
    ({"q": "reversion"}, ["a"]),
    ({"q": '"'}, []),
    ({"q": '""" OR'}, []),
    ({"q": "strat*"}, []),
    ({"q": "a"}, ["a", "b", "c", "off"]),
    ({"q": ""}, ["a", "b", "c", "off"]),
    ({"tags_any": "daily,fx"}, ["a", "b", "off"]),
    ({"tags_any": "weekly, nobody ,"}, ["c"]),
    ({"tags_any": "nobody"}, []),
    ({"instrument": "EURUSD"}, ["b"]),
    ({"instrument": "EURUSD,USDJPY", "tags_any": "weekly"}, ["c"]),
    ({"enabled": "on"}, ["a", "b", "c"]),
    ({"enabled": "false"}, ["off"]),
    ({"enabled": "all"}, ["a", "b", "c", "off"]),
    ({"health": "unknown"}, ["a", "b", "c", "off"]),
    ({"health": "healthy,degraded"}, []),
]


async def test_filters(face: httpx.AsyncClient) -> None:
    for query, found in FILTERS:
        assert await ids(face, **query) == found, query


async def test_past_the_end_there_is_nothing_but_the_true_total(face: httpx.AsyncClient) -> None:
    body = (await face.get("/gui/strategies", params={"page": 7, "page_size": 10})).json()
    assert body == {"items": [], "page": 7, "page_size": 10, "total": 4}


async def test_what_cannot_be_asked_is_400(face: httpx.AsyncClient) -> None:
    wrong = [
        "q=" + "x" * 65, "q=%00", "q=abc%00",
        "health=ill", "enabled=maybe", "sort=title.asc", "sort=id", "page=0", "page=-1",
        "page=x",
        "page=" + "9" * 30, "page_size=9", "page_size=101", "page_size=1e1", "page=1&page=2", "page=%D9%A1",
        "sort=id.asc;drop",
    ]  # fmt: skip
    for query in wrong:
        expect_flat(await face.get(f"/gui/strategies?{query}"), 400, "BAD_REQUEST")


async def test_what_cannot_be_asked_of_one_is_400(face: httpx.AsyncClient) -> None:
    wrong = [
        "strat.a?summary_window_days=0", "strat.a?limit_history=201", "strat.a?limit_history=0",
        "strat.a/results?limit=201", "strat.a/results?from=yesterday", "strat.a/results?to=2025-13-01",
        "strat.a/results?from=2025-01-02&to=2025-01-01",
    ]  # fmt: skip
    for path in wrong:
        expect_flat(await face.get(f"/gui/strategies/{path}"), 400, "BAD_REQUEST")


async def test_an_entry_is_written_whole_and_seen_everywhere_at_once(
    face: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    entry = {"title": "が new", "instrument": "GBPUSD", "tags": ["x"], "owner": "desk", "metadata": {"a": 1}}
    async with recheck_face(config) as other:
        written = await face.put("/gui/strategies/strat.new", json=entry)
        assert written.status_code == 200
        shown = (await other.get("/gui/strategies/strat.new")).json()["strategy"]
        assert shown == written.json() | {"health": "unknown", "last_checked_at": None}
        assert await ids(other, q="か\u3099 new") == ["new"]
        await other.put("/gui/strategies/strat.new", json={"id": "strat.new"})
        shown = (await face.get("/gui/strategies/strat.new")).json()["strategy"]
        assert (shown["title"], shown["tags"], shown["metadata"]) == ("strat.new", [], {})
        assert await ids(face, tags_any="x") == []
        assert (await face.delete("/gui/strategies/strat.new")).status_code == 204
        expect_flat(await other.get("/gui/strategies/strat.new"), 404, "NOT_FOUND")
        expect_flat(await other.delete("/gui/strategies/strat.new"), 404, "NOT_FOUND")


async def test_an_entry_that_cannot_be_one_is_400(face: httpx.AsyncClient) -> None:
    wrong: list[tuple[str, Any]] = [
        ("UPPER", {}),
        ("strat.x", {"id": "strat.y"}),
        ("strat.x", {"threshold_profile": "nobody"}),
        ("strat.x", {"tags": "x"}),
        ("strat.x", {"title": "a\0b"}),
        ("strat.x", []),
        ("strat.x", {"flow": "  "}),
    ]
    for path, entry in wrong:
        expect_flat(await face.put(f"/gui/strategies/{path}", json=entry), 400, "BAD_REQUEST")


async def test_a_restart_reads_the_file_again_and_keeps_what_others_wrote(config: NatsBackendConfig) -> None:
    async with recheck_face(config) as before:
        await before.put("/gui/strategies/strat.a", json={"title": "changed"})
        await before.put("/gui/strategies/strat.z", json={"title": "ours"})
    async with recheck_face(config) as after:
        items = {one["id"]: one["title"] for one in (await after.get("/gui/strategies")).json()["items"]}
        assert (items["strat.a"], items["strat.z"]) == ("Mean reversion", "ours")


async def test_an_index_on_disk_goes_on_where_it_was(nats_server: NatsServer, tmp_path: Path) -> None:
    config = recheck_config(nats_server, tmp_path, read_model_path=str(tmp_path / "runs.sqlite"))
    async with recheck_face(config) as before:
        assert len(await ids(before)) == 4
    assert (tmp_path / "runs.sqlite.rechecks").exists()
    async with recheck_face(config) as after:
        await after.delete("/gui/strategies/strat.off")
        assert await ids(after) == ["a", "b", "c"]


def a_table() -> tuple[RecheckTable, RecheckQueries]:
    """Sixty strategies: some never checked, some without an instrument, several alike."""
    table = RecheckTable(None)
    for number in range(60):
        instrument = (None, "EURUSD", "USDJPY")[number % 3]
        strategy = Strategy(
            id=f"s{number:02d}", title=f"T {number}", instrument=instrument, tags=(f"t{number % 4}", "all")
        )
        write_strategy(table, "default", strategy)
    for number in range(0, 60, 2):
        health = (StrategyHealth.HEALTHY, StrategyHealth.DEGRADED)[number % 4 // 2]
        result = StrategyResult(
            strategy=f"s{number:02d}", health=health, digest="sha256:x", metrics={"sharpe": 1.0}
        )
        outcome = BatchOutcome(
            request_id="R", batch=number, completed_at=float(number % 7), results=(result,)
        )
        write_outcome(table, "default", number + 1, outcome)
    return table, RecheckQueries(table)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_puts_nulls_last_and_pages_neither_lose_nor_repeat(order: str) -> None:
    _, reading = a_table()
    search = StrategySearch("default")
    pages = [reading.page(search, order, 10, start)[0] for start in range(0, 60, 10)]
    listed = [one for page in pages for one in page]
    assert len({one.strategy.id for one in listed}) == 60
    column = order.partition(".")[0]

    def value(one: Any) -> Any:
        return {
            "last_checked_at": one.checked_at,
            "id": one.strategy.id,
            "instrument": one.strategy.instrument,
            "health": one.health,
        }[column]

    known = [value(one) for one in listed if value(one) is not None]
    assert known == sorted(known, reverse=order.endswith("desc"))
    assert all(value(one) is None for one in listed[len(known) :])
    for one, two in pairwise(listed):
        assert column == "id" or value(one) != value(two) or one.strategy.id < two.strategy.id


def test_what_matches_two_tags_counts_once_also_when_few_are_sorted() -> None:
    _, reading = a_table()
    for search, total in (
        (StrategySearch("default", tags=("all", "t1")), 60),
        (StrategySearch("default", tags=("t1", "t2")), 30),
    ):
        found, counted = reading.page(search, "id.asc", 100, 0)
        assert (len(found), counted) == (total, total)
    both = StrategySearch("default", tags=("t0", "all"), health=("healthy",), text="s0")
    found, counted = reading.page(both, "last_checked_at.desc", 100, 0)
    assert {one.health for one in found} == {"healthy"}
    assert counted == len(found) == 3
    assert reading.page(StrategySearch("other"), "id.asc", 10, 0) == ([], 0)


def test_the_latest_result_is_the_health_whatever_comes_later() -> None:
    table, reading = a_table()

    def checked(at: float, health: StrategyHealth, seq: int) -> None:
        result = StrategyResult(strategy="s01", health=health, digest="d")
        write_outcome(
            table,
            "default",
            seq,
            BatchOutcome(request_id=f"R{seq}", batch=0, completed_at=at, results=(result,)),
        )

    checked(100.0, StrategyHealth.DEGRADED, 900)
    checked(50.0, StrategyHealth.HEALTHY, 901)
    found = reading.find("default", "s01")
    assert found is not None
    assert (found.health, found.checked_at) == ("degraded", 100.0)
    write_strategy(table, "default", Strategy(id="s01", title="again"))
    found = reading.find("default", "s01")
    assert found is not None
    assert (found.health, found.strategy.title) == ("degraded", "again")
    erase_strategy(table, "default", "s01")
    assert reading.find("default", "s01") is None
    assert [one.completed_at for one in reading.results("default", "s01", 10)] == [100.0, 50.0]
    assert [one.completed_at for one in reading.results("default", "s01", 10, 50.0, 50.0)] == [50.0]


def test_ids_and_titles_of_all_shapes_can_be_stored_and_found() -> None:
    names = ["..", ".a", "a.", "-", "_", "a" * 128]
    written = "strategies:\n" + "".join(f"  - {{id: '{name}'}}\n" for name in names)
    table = RecheckTable(None)
    for strategy in parse_catalogue(written).strategies:
        write_strategy(table, "t", strategy)
    found, total = RecheckQueries(table).page(StrategySearch("t"), "id.asc", 100, 0)
    assert (sorted(names), len(names)) == ([one.strategy.id for one in found], total)
