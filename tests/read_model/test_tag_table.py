"""Runs by tag: found through an index, in an order that does not change, page after page."""

from __future__ import annotations

import itertools
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.read_model import tag_table
from pyoco_server.read_model.tag_table import (
    SubmissionPosition,
    SubmittedRun,
    TagFilter,
    TagTable,
    page_query,
)

STAGES = ("PENDING", "RUNNING", "COMPLETED")


def tables() -> tuple[sqlite3.Connection, TagTable]:
    db = sqlite3.connect(":memory:")
    db.executescript(
        "CREATE TABLE runs (run_id TEXT PRIMARY KEY, state BLOB) WITHOUT ROWID;" + tag_table.CREATE
    )
    return db, TagTable(db)


def ids(states: list[bytes]) -> list[str]:
    """What is kept as the state of a run in these tests is its id."""
    return [state.decode() for state in states]


def put(db: sqlite3.Connection, table: TagTable, *rows: SubmittedRun) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO runs VALUES (?, ?)", ((row.run_id, row.run_id.encode()) for row in rows)
    )
    table.write(rows, [])


def row(
    run_id: str, created: float = 1.0, *tags: str, stage: str = "PENDING", tenant: str | None = None
) -> SubmittedRun:
    return SubmittedRun(run_id, tenant, stage, created, tags)


def all_pages(table: TagTable, wanted: TagFilter, rows: dict[str, SubmittedRun], limit: int) -> list[str]:
    found: list[str] = []
    while True:
        last = SubmissionPosition(rows[found[-1]].created, found[-1]) if found else None
        page = ids(table.page(wanted, limit, last))
        found += page
        if len(page) < limit:
            return found


def test_the_newest_come_first_and_equal_instants_by_id() -> None:
    db, table = tables()
    put(db, table, row("a", 1.0), row("c", 2.0), row("b", 2.0))
    assert ids(table.page(TagFilter(), 10, None)) == ["c", "b", "a"]
    assert ids(table.page(TagFilter(), 10, SubmissionPosition(2.0, "c"))) == ["b", "a"]
    assert ids(table.page(TagFilter(), 1, SubmissionPosition(2.0, "b"))) == ["a"]


def test_tags_follow_what_is_said_of_them() -> None:
    db, table = tables()
    put(db, table, row("a", 1.0, "x", "y"))
    assert ids(table.page(TagFilter(("x", "y")), 10, None)) == ["a"]
    put(db, table, row("a", 1.0, "y", "z", stage="RUNNING"))
    assert ids(table.page(TagFilter(("x",)), 10, None)) == []
    assert ids(table.page(TagFilter(("y", "z"), "RUNNING"), 10, None)) == ["a"]
    assert ids(table.page(TagFilter(("y",), "PENDING"), 10, None)) == []
    table.write([], ["a", "unknown"])
    assert ids(table.page(TagFilter(("y",)), 10, None)) == []
    assert db.execute("SELECT count(*) FROM job_tags").fetchone() == (0,)


rows_of = st.lists(
    st.builds(
        SubmittedRun,
        st.text("abc", min_size=1, max_size=2),
        st.sampled_from([None, "t1", "t2"]),
        st.sampled_from(STAGES),
        st.sampled_from([1.0, 2.0, 3.0]),
        st.lists(st.sampled_from("xyz"), unique=True).map(tuple),
    ),
    max_size=30,
)


@given(
    rows_of, st.sets(st.sampled_from("xyz")), st.sampled_from([None, *STAGES]), st.sampled_from([None, "t1"])
)
def test_pages_have_what_a_look_at_everything_has(
    written: list[SubmittedRun], tags: set[str], stage: str | None, tenant: str | None
) -> None:
    db, table = tables()
    rows: dict[str, SubmittedRun] = {}
    for one in written:
        # Whose it is and when it began stays as it is for ever.
        known = rows.get(one.run_id, one)
        rows[one.run_id] = one._replace(tenant=known.tenant, created=known.created)
        put(db, table, rows[one.run_id])
    wanted = TagFilter(tuple(tags), stage, tenant)
    expected = sorted(
        (
            one
            for one in rows.values()
            if tags <= set(one.tags) and stage in (None, one.stage) and tenant in (None, one.tenant)
        ),
        key=lambda one: (one.created, one.run_id),
        reverse=True,
    )
    assert all_pages(table, wanted, rows, 2) == [one.run_id for one in expected]


@pytest.mark.parametrize(
    ("tags", "stage", "tenant"),
    list(itertools.product([(), ("x",), ("x", "y")], [None, "PENDING"], [None, "t1"])),
)
def test_every_list_is_read_from_an_index_in_its_order(
    tags: tuple[str, ...], stage: str | None, tenant: str | None
) -> None:
    db, _ = tables()
    query, values = page_query(TagFilter(tags, stage, tenant), SubmissionPosition(1.0, "a"))
    plan = [str(step[3]) for step in db.execute(f"EXPLAIN QUERY PLAN {query}", [*values, 10])]
    assert not [step for step in plan if step.startswith("SCAN") or "TEMP B-TREE" in step], plan
