"""The table behind lists: filters, order, paging, and files that are not ours to read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pyoco_server.store.read_table import Filter, ReadTable, Row


def row(run_id: str, updated_at: float, **changes: object) -> Row:
    plain = Row(
        run_id=run_id,
        tenant=None,
        flow="greet",
        tag="default",
        status="PENDING",
        updated_at=updated_at,
        owed_since=None,
        instance=None,
        stuck_cancel=None,
        state=run_id.encode(),
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


@pytest.fixture
def table() -> ReadTable:
    return ReadTable(None)


def filled(table: ReadTable, *rows: Row) -> ReadTable:
    table.write(rows, [], {"position": "1"})
    return table


def test_the_newest_come_first_and_ties_have_an_order(table: ReadTable) -> None:
    filled(table, row("a", 1.0), row("c", 2.0), row("b", 2.0), row("d", 0.5))
    assert table.page(Filter(), 10) == [b"c", b"b", b"a", b"d"]
    assert table.page(Filter(), 2) == [b"c", b"b"]


def test_pages_meet_without_a_gap_or_a_double_also_inside_a_tie(table: ReadTable) -> None:
    rows = [row(f"r{n:02}", float(n // 4)) for n in range(30)]
    filled(table, *rows)
    pages: list[bytes] = []
    before: tuple[float, str] | None = None
    while page := table.page(Filter(before=before), 7):
        pages += page
        last = page[-1].decode()
        before = (float(int(last[1:]) // 4), last)
    newest_first = sorted(rows, key=lambda r: (r.updated_at, r.run_id), reverse=True)
    assert pages == [r.state for r in newest_first]


def test_every_filter_counts_and_all_of_them_together(table: ReadTable) -> None:
    filled(
        table,
        row("a", 1.0, status="RUNNING", flow="x", tag="t", tenant="n"),
        row("b", 2.0, status="RUNNING", flow="y", tag="t", tenant="m"),
        row("c", 3.0, status="FAILED", flow="x", tag="u", tenant="n"),
        row("d", 4.0, status="RUNNING", flow="x", tag="u"),
    )
    assert table.page(Filter(status="RUNNING"), 9) == [b"d", b"b", b"a"]
    assert table.page(Filter(flow="x"), 9) == [b"d", b"c", b"a"]
    assert table.page(Filter(tag="t"), 9) == [b"b", b"a"]
    assert table.page(Filter(tenant="n"), 9) == [b"c", b"a"]
    assert table.page(Filter(updated_after=2.0), 9) == [b"d", b"c"]
    assert table.page(Filter(before=(3.0, "c")), 9) == [b"b", b"a"]
    assert table.page(Filter(status="RUNNING", flow="x", tag="t", tenant="n", updated_after=0.5), 9) == [b"a"]
    assert table.page(Filter(status="RUNNING", flow="x", updated_after=1.0, before=(9.0, "")), 9) == [b"d"]
    assert table.page(Filter(status="COMPLETED"), 9) == []


@pytest.mark.parametrize("wanted", [Filter(), Filter(status="S"), Filter(flow="F"), Filter(tag="T")])
def test_a_page_is_read_from_an_index_and_never_sorted(table: ReadTable, wanted: Filter) -> None:
    from pyoco_server.store.read_table import _where

    where, values = _where(wanted)
    order = "ORDER BY updated_at DESC, run_id DESC LIMIT 50"
    plan = table._db.execute(f"EXPLAIN QUERY PLAN SELECT state FROM runs {where} {order}", values).fetchall()
    assert "USING INDEX" in str(plan)
    assert "TEMP B-TREE" not in str(plan)


def test_a_run_has_one_row_and_a_gone_one_none(table: ReadTable) -> None:
    filled(table, row("a", 1.0), row("b", 1.0))
    table.write([row("a", 2.0, state=b"newer")], ["b"], {"position": "2"})
    assert table.page(Filter(), 9) == [b"newer"]
    assert (table.count(), table.state("a"), table.state("b")) == (1, b"newer", None)
    assert table.meta()["position"] == "2"


def test_what_is_owed_comes_oldest_first(table: ReadTable) -> None:
    filled(table, row("a", 9.0, owed_since=3.0), row("b", 9.0, owed_since=1.0), row("c", 9.0))
    (tag,) = table.tags_that_owe()
    assert table.owed(tag, before=5.0, limit=9) == [b"b", b"a"]
    assert table.owed(tag, before=2.0, limit=9) == [b"b"]
    assert table.owed(tag, before=5.0, limit=1) == [b"b"]


def test_what_is_owed_is_found_by_tag_so_that_no_tag_hides_another(table: ReadTable) -> None:
    crowd = [row(f"c{number}", 9.0, tag="crowd", owed_since=1.0) for number in range(50)]
    filled(table, *crowd, row("a", 9.0, tag="alone", owed_since=2.0), row("z", 9.0, tag="zero"))
    assert table.tags_that_owe() == ["alone", "crowd"]
    assert table.owed("alone", before=5.0, limit=1) == [b"a"]
    plan = table._db.execute(
        "EXPLAIN QUERY PLAN SELECT min(tag) FROM runs WHERE owed_since IS NOT NULL AND tag > ?", ("",)
    ).fetchall()
    assert "runs_owed" in str(plan)


def test_claims_and_stuck_cancels_are_found(table: ReadTable) -> None:
    filled(table, row("a", 1.0, instance="i"), row("b", 1.0, instance="j"), row("c", 1.0, stuck_cancel=1))
    assert table.instances() == {"i", "j"}
    assert table.claimed_by("i", 9) == [b"a"]
    assert table.stuck_cancels(9) == [b"c"]


def test_a_file_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.db"
    filled(ReadTable(path), row("a", 1.0)).close()
    assert ReadTable(path).page(Filter(), 9) == [b"a"]


def damage_schema(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = 'other' WHERE key = 'schema'")


def damage_tables(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE meta")


def damage_header(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 500)


def damage_pages(path: Path) -> None:
    """The first page, with the tables' names, is whole; what is in them is not."""
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xa5" * len(data[8192:])
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "damage", [damage_schema, damage_tables, damage_header, damage_pages, cut_short, make_empty]
)
def test_a_file_that_is_not_ours_or_broken_is_begun_anew(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "runs.db"
    table = filled(ReadTable(path), *(row(f"r{n}", 1.0, state=b"x" * 900) for n in range(200)))
    table._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    table.close()
    assert callable(damage)
    damage(path)
    opened = ReadTable(path)
    assert opened.count() == 0
    assert set(opened.meta()) == {"schema"}
    filled(opened, row("a", 1.0)).close()
    assert ReadTable(path).page(Filter(), 9) == [b"a"]
