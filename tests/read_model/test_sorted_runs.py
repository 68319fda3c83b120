"""Runs by submission and by duration: an index for each order, pages that do not shift, a bounded look."""

from __future__ import annotations

import itertools
import random
import sqlite3

import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle.run import Run, RunId
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.read_model.run_rows import ChangedRun, row_of, submitted_row
from pyoco_server.read_model.run_table import Filter, RunTable
from pyoco_server.read_model.sorted_runs import (
    ORDERS,
    SortedPosition,
    Sorting,
    queries,
    sorted_page,
)

PLAIN = Run(
    run_id=RunId("plain"),
    flow_name="greet",
    params={},
    tag="default",
    tags=(),
    submitted_at=0.0,
    updated_at=0.0,
)
SORTED = [order for order in ORDERS if order != "-updated"]


def put(table: RunTable, *runs: Run, seq: int = 1) -> None:
    changed = [ChangedRun(run, seq + place, run.updated_at) for place, run in enumerate(runs)]
    table.write([row_of(one) for one in changed], [], {}, [submitted_row(run) for run in runs])


def run(name: str, submitted: float, took: float | None = None, **members: object) -> Run:
    given: dict[str, object] = {"run_id": name, "submitted_at": submitted, "updated_at": submitted}
    if took is not None:
        ended = submitted + 1 + took
        given |= {"started_at": submitted + 1, "ended_at": ended, "ended": RunStatus.COMPLETED}
        given["updated_at"] = ended
    return replace(PLAIN, **given, **members)


def page(
    table: RunTable,
    wanted: Filter = Filter(),  # noqa: B008
    sorting: Sorting = Sorting(),  # noqa: B008
    limit: int = 100,
    after: SortedPosition | None = None,
    looked_at_max: int = 1000,
) -> tuple[list[str], SortedPosition | None]:
    found = sorted_page(
        table.connection, wanted, sorting, limit, after, looked_at_max=looked_at_max, fits=lambda _: True
    )
    return [one.run_id for one in found.runs], found.following


def pages(table: RunTable, wanted: Filter, sorting: Sorting, limit: int, looked_at_max: int = 7) -> list[str]:
    found: list[str] = []
    after: SortedPosition | None = None
    while True:
        ids, after = page(table, wanted, sorting, limit, after, looked_at_max)
        found += ids
        if after is None:
            return found


@pytest.fixture
def table() -> RunTable:
    return RunTable(None)


def test_runs_are_sorted_by_submission_and_by_duration(table: RunTable) -> None:
    put(table, run("a", 1, took=5), run("b", 2), run("c", 3, took=1), run("d", 3, took=9))
    orders = {order: page(table, sorting=Sorting(order))[0] for order in SORTED}
    assert orders == {
        "-submitted": ["d", "c", "b", "a"],
        "submitted": ["a", "b", "c", "d"],
        "-duration": ["d", "a", "c"],
        "duration": ["c", "a", "d"],
    }


def test_both_ends_of_a_range_of_submissions_are_excluded(table: RunTable) -> None:
    put(table, *(run(name, at, took=1) for at, name in enumerate("abcd")))
    for order in SORTED:
        sorting = Sorting(order, submitted_after=0, submitted_before=3)
        assert sorted(page(table, sorting=sorting)[0]) == ["b", "c"]


def test_retries_of_a_run_are_found(table: RunTable) -> None:
    put(table, run("a", 1), run("b", 2, retry_of="a"), run("c", 3, retry_of="a"), run("d", 4, retry_of="b"))
    assert page(table, sorting=Sorting(retry_of="a"))[0] == ["c", "b"]
    assert page(table, Filter(tenant="other"), Sorting(retry_of="a"))[0] == []


def test_every_filter_in_every_order_has_the_pages_of_a_plain_sort(table: RunTable) -> None:
    chance = random.Random(7)
    runs = [
        run(
            f"r{number:03}",
            submitted=float(chance.randrange(20)),
            took=chance.choice([None, 0.0, 1.0, 2.5]),
            flow_name=chance.choice("xy"),
            tag=chance.choice("tu"),
            tenant_id=chance.choice([None, "m", "n"]),
        )
        for number in range(80)
    ]
    put(table, *runs)
    wanted = [
        Filter(status=status, flow=flow, tag=tag, tenant=tenant)
        for status, flow, tag, tenant in itertools.product(
            (None, "PENDING", "COMPLETED", "PENDING,COMPLETED,CANCELLING"),
            (None, "x"),
            (None, "t"),
            (None, "m"),
        )
    ]
    for one, order, after in itertools.product(wanted, SORTED, (None, 4.0)):
        sorting = Sorting(order, submitted_after=after)
        assert pages(table, one, sorting, limit=3) == plainly(runs, one, sorting), (one, sorting)


def plainly(runs: list[Run], wanted: Filter, sorting: Sorting) -> list[str]:
    def fits(one: Run) -> bool:
        return (
            (wanted.status is None or one.status.value in wanted.status.split(","))
            and wanted.flow in (None, one.flow_name)
            and wanted.tag in (None, one.tag)
            and wanted.tenant in (None, one.tenant_id)
            and (sorting.submitted_after is None or one.submitted_at > sorting.submitted_after)
        )

    def value(one: Run) -> float | None:
        return submitted_row(one).took if sorting.order.endswith("duration") else one.submitted_at

    found = [(at, one.run_id) for one in runs if fits(one) and (at := value(one)) is not None]
    return [run_id for _, run_id in sorted(found, reverse=sorting.order.startswith("-"))]


def test_pages_do_not_shift_while_runs_are_added_and_change(table: RunTable) -> None:
    made = [run(f"{number:02}", float(number)) for number in range(10)]
    put(table, *made)
    first, after = page(table, limit=4)
    assert first == ["09", "08", "07", "06"]
    put(table, run("new", 99.0), run("05", 5.0, took=3), run("08", 8.0, took=3), seq=50)
    rest, _ = page(table, after=after)
    assert rest == ["05", "04", "03", "02", "01", "00"]


def test_a_page_looks_at_a_bounded_number_of_runs(table: RunTable) -> None:
    put(
        table,
        *(run(f"{number:03}", float(number), tag="rare" if number == 0 else "t") for number in range(100)),
    )
    ids, after = page(table, Filter(tag="rare"), looked_at_max=40)
    assert (ids, after) == ([], SortedPosition(60.0, "060"))
    assert pages(table, Filter(tag="rare"), Sorting(), limit=5, looked_at_max=40) == ["000"]


def test_every_order_is_read_from_an_index(table: RunTable) -> None:
    filters = [
        Filter(status=status, flow=flow, tenant=tenant, tag=tag)
        for status, flow, tenant, tag in itertools.product(
            (None, "FAILED", "WAITING,FAILED"), (None, "x"), (None, "m"), (None, "t")
        )
    ]
    sortings = [
        Sorting(order, submitted_after=after, retry_of=retry_of)
        for order, after, retry_of in itertools.product(SORTED, (None, 1.0), (None, "a"))
    ]
    for wanted, sorting in itertools.product(filters, sortings):
        for query, values in queries(wanted, sorting, SortedPosition(1.0, "a")):
            plan = plan_of(table.connection, query, values)
            assert not any("TEMP B-TREE" in step for step in plan), (query, plan)
            assert any("USING INDEX begun_" in step or "COVERING INDEX begun_" in step for step in plan)


def plan_of(db: sqlite3.Connection, query: str, values: list[object]) -> list[str]:
    return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values)]
