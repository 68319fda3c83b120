"""The table behind lists: filters, order, paging, and files that are not ours to read."""

from __future__ import annotations

import sqlite3
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.lifecycle.run import Run, RunId
from pyoco_server.read_model.erased_runs import ErasedRun
from pyoco_server.read_model.housekeeping_queries import HousekeepingQueries
from pyoco_server.read_model.run_rows import Row
from pyoco_server.read_model.run_table import SEQ_MAX, Filter, RunTable, page_query


def row(run_id: str, updated_at: float, **changes: object) -> Row:
    """Changed at this instant, by clocks that agree: its place in the log follows from it."""
    plain = Row(
        run_id=run_id,
        tenant=None,
        flow="greet",
        tag="default",
        status="PENDING",
        yaml=None,
        seq=int(updated_at * 1000),
        clock=updated_at,
        updated_at=updated_at,
        starts_at=None,
        owed_since=None,
        instance=None,
        stuck_cancel=None,
        state=run_id.encode(),
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


def known(run_id: str, updated_at: float, **changes: object) -> Row:
    """A row with a run in it that can be decoded."""
    run = Run(
        run_id=RunId(run_id),
        flow_name="greet",
        params={},
        tag="default",
        tags=(),
        submitted_at=0.0,
        updated_at=updated_at,
    )
    return row(run_id, updated_at, state=msgspec.json.encode(run), **changes)


def ids(runs: list[Run]) -> list[str]:
    return [run.run_id for run in runs]


@pytest.fixture
def table() -> RunTable:
    return RunTable(None)


def filled(table: RunTable, *rows: Row) -> RunTable:
    table.write(rows, [], {"position": "1"})
    return table


def states(table: RunTable, wanted: Filter, limit: int) -> list[bytes]:
    return [found.state for found in table.find(wanted, limit)]


def test_what_changed_last_comes_first(table: RunTable) -> None:
    filled(table, row("a", 1.0), row("c", 2.0), row("b", 3.0), row("d", 0.5))
    assert states(table, Filter(), 10) == [b"b", b"c", b"a", b"d"]
    assert states(table, Filter(), 2) == [b"b", b"c"]


def test_the_place_in_the_log_counts_and_not_what_clocks_say(table: RunTable) -> None:
    filled(table, row("ahead", 9.0, seq=1, clock=9.0), row("behind", 1.0, seq=2, clock=9.0))
    assert states(table, Filter(), 10) == [b"behind", b"ahead"]
    assert states(table, Filter(updated_after=5.0), 10) == [b"ahead"]
    assert table.clock() == 9.0


def test_a_stretch_of_the_log_is_read_without_its_ends(table: RunTable) -> None:
    filled(table, *(row(f"r{n}", float(n), seq=n) for n in range(1, 10)))
    assert [found.seq for found in table.find(Filter(), 10, above=3, below=7)] == [6, 5, 4]
    assert [found.seq for found in table.find(Filter(), 2, above=3, below=7)] == [6, 5]
    assert table.find(Filter(), 10, above=9) == []


def test_a_search_by_time_stops_where_nothing_later_can_be(table: RunTable) -> None:
    filled(table, *(row(f"r{n:05}", float(n)) for n in range(1, 5001)))
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    table._db.set_progress_handler(count, 100)
    assert len(table.find(Filter(updated_after=4990.0), 200)) == 10
    assert steps < 20


def test_every_filter_counts_and_all_of_them_together(table: RunTable) -> None:
    filled(
        table,
        row("a", 1.0, status="RUNNING", flow="x", tag="t", tenant="n"),
        row("b", 2.0, status="RUNNING", flow="y", tag="t", tenant="m"),
        row("c", 3.0, status="FAILED", flow="x", tag="u", tenant="n"),
        row("d", 4.0, status="RUNNING", flow="x", tag="u", yaml="y"),
    )
    assert states(table, Filter(status="RUNNING"), 9) == [b"d", b"b", b"a"]
    assert states(table, Filter(flow="x"), 9) == [b"d", b"c", b"a"]
    assert states(table, Filter(tag="t"), 9) == [b"b", b"a"]
    assert states(table, Filter(tenant="n"), 9) == [b"c", b"a"]
    assert states(table, Filter(updated_after=2.0), 9) == [b"d", b"c"]
    assert states(table, Filter(yaml="y"), 9) == [b"d"]
    everything = Filter(status="RUNNING", flow="x", tag="t", tenant="n", updated_after=0.5)
    assert states(table, everything, 9) == [b"a"]
    assert states(table, Filter(status="RUNNING", flow="x", updated_after=1.0), 9) == [b"d"]
    assert states(table, Filter(status="COMPLETED"), 9) == []


FILTERS: list[dict[str, Any]] = [
    dict(zip(("status", "flow", "tag", "yaml", "tenant"), chosen, strict=True))
    for chosen in product((None, "x"), repeat=5)
]


@pytest.mark.parametrize(("archived", "index"), [(0, "runs_by_"), (1, "archived_by_")])
@pytest.mark.parametrize("wanted", FILTERS, ids=lambda one: "+".join(k for k in one if one[k]) or "all")
def test_a_page_is_searched_in_an_index_and_never_sorted(
    table: RunTable, wanted: dict[str, Any], archived: int, index: str
) -> None:
    query, values = page_query(Filter(**wanted, archived=archived), 0, SEQ_MAX)
    ((_, _, _, plan),) = table._db.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    assert plan.startswith(f"SEARCH runs USING INDEX {index}")
    covered = [name for name in ("tenant", "yaml", "status") if wanted[name]]
    assert [name for name in covered if f"{name}=?" not in plan] == []
    assert "seq>? AND seq<?" in plan


def test_without_tenants_and_yaml_their_indexes_are_empty(table: RunTable) -> None:
    filled(table, *(row(f"r{n}", float(n)) for n in range(50)))
    query = "SELECT name FROM sqlite_master WHERE tbl_name = 'runs' AND type = 'index' AND sql LIKE '%WHERE%'"
    partial = [name for (name,) in table._db.execute(query) if "tenant" in name or "yaml" in name]
    assert len(partial) == 20
    assert states(table, Filter(tenant="x"), 9) == states(table, Filter(yaml="x"), 9) == []


def test_the_runs_of_a_schedule_are_found_by_an_index_of_their_own(table: RunTable) -> None:
    filled(table, row("a", 1.0, schedule="s", tenant="x"), row("b", 2.0), row("c", 3.0, schedule="s"))
    assert states(table, Filter(schedule="s"), 9) == [b"c", b"a"]
    assert states(table, Filter(schedule="s", tenant="x"), 9) == [b"a"]
    query, values = page_query(Filter(schedule="s", tenant="x", status="PENDING"), 0, SEQ_MAX)
    ((_, _, _, plan),) = table._db.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    by_status = "runs_by_schedule_status_seq (schedule=? AND status=? AND seq>? AND seq<?)"
    assert plan == f"SEARCH runs USING INDEX {by_status}"
    query, values = page_query(Filter(schedule="s", tenant="x"), 0, SEQ_MAX)
    ((_, _, _, plan),) = table._db.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    assert plan == "SEARCH runs USING INDEX runs_by_schedule_seq (schedule=? AND seq>? AND seq<?)"
    assert table.counts_of_schedule("s") == {"PENDING": 2}


def test_a_run_has_one_row_and_a_gone_one_none(table: RunTable) -> None:
    filled(table, row("a", 1.0), row("b", 1.0))
    table.write([row("a", 2.0, state=b"newer")], [ErasedRun("b", 2, 1, None, True)], {"position": "2"})
    assert states(table, Filter(), 9) == [b"newer"]
    assert (table.count(), table.state("a"), table.state("b")) == (1, b"newer", None)
    assert table.meta()["position"] == "2"


def test_what_is_owed_comes_oldest_first(table: RunTable) -> None:
    queries = HousekeepingQueries(
        filled(
            table, known("a", 9.0, owed_since=3.0), known("b", 9.0, owed_since=1.0), known("c", 9.0)
        ).connection
    )
    (tag,) = queries.tags_that_owe()
    assert ids(queries.owed(tag, before=5.0, limit=9)) == ["b", "a"]
    assert ids(queries.owed(tag, before=2.0, limit=9)) == ["b"]
    assert ids(queries.owed(tag, before=5.0, limit=1)) == ["b"]


def test_what_is_owed_is_found_by_tag_so_that_no_tag_hides_another(table: RunTable) -> None:
    crowd = [known(f"c{number}", 9.0, tag="crowd", owed_since=1.0) for number in range(50)]
    queries = HousekeepingQueries(
        filled(
            table, *crowd, known("a", 9.0, tag="alone", owed_since=2.0), known("z", 9.0, tag="zero")
        ).connection
    )
    assert queries.tags_that_owe() == ["alone", "crowd"]
    assert ids(queries.owed("alone", before=5.0, limit=1)) == ["a"]
    plan = table._db.execute(
        "EXPLAIN QUERY PLAN SELECT min(tag) FROM runs WHERE owed_since IS NOT NULL AND tag > ?", ("",)
    ).fetchall()
    assert "runs_owed" in str(plan)


def test_what_was_to_start_by_now_is_found_earliest_first(table: RunTable) -> None:
    queries = HousekeepingQueries(
        filled(
            table, known("a", 1.0, starts_at=5.0), known("b", 1.5, starts_at=3.0), known("c", 2.0)
        ).connection
    )
    assert ids(queries.delayed(until=9.0, limit=9)) == ["b", "a"]
    assert ids(queries.delayed(until=9.0, limit=1)) == ids(queries.delayed(until=3.0, limit=9)) == ["b"]
    query = "EXPLAIN QUERY PLAN SELECT state FROM runs WHERE starts_at <= ? ORDER BY starts_at"
    assert "runs_delayed" in str(table._db.execute(query, (1.0,)).fetchall())


def test_claims_and_stuck_cancels_are_found(table: RunTable) -> None:
    queries = HousekeepingQueries(
        filled(
            table,
            known("a", 1.0, instance="i"),
            known("b", 1.0, instance="j"),
            known("c", 1.0, stuck_cancel=1),
        ).connection
    )
    assert queries.claiming_instances() == {"i", "j"}
    assert ids(queries.claimed_by("i", 9)) == ["a"]
    assert ids(queries.stuck_cancels(9)) == ["c"]


def test_a_file_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.db"
    filled(RunTable(path), row("a", 1.0)).close()
    assert states(RunTable(path), Filter(), 9) == [b"a"]


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
    table = filled(RunTable(path), *(row(f"r{n}", 1.0, state=b"x" * 900) for n in range(200)))
    table._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    table.close()
    assert callable(damage)
    damage(path)
    opened = RunTable(path)
    assert opened.count() == 0
    assert set(opened.meta()) == {"schema"}
    filled(opened, row("a", 1.0)).close()
    assert states(RunTable(path), Filter(), 9) == [b"a"]


def test_those_that_are_due_come_by_their_instant(table: RunTable) -> None:
    queries = HousekeepingQueries(
        filled(
            table, known("late", 1.0, due_at=30.0), known("soon", 2.0, due_at=10.0), known("never", 3.0)
        ).connection
    )
    assert ids(queries.due(until=9.9, limit=10)) == []
    assert ids(queries.due(until=30.0, limit=10)) == ["soon", "late"]
    assert ids(queries.due(until=30.0, limit=1)) == ["soon"]
    assert (queries.next_due(after=0.0), queries.next_due(after=10.0), queries.next_due(after=30.0)) == (
        10.0,
        30.0,
        None,
    )


def test_archived_runs_are_left_out_of_the_lists_that_want_it_so(table: RunTable) -> None:
    filled(table, row("old", 1.0), row("away", 2.0, archived=1), row("new", 3.0))
    for wanted in (Filter(), Filter(status="PENDING"), Filter(flow="greet", status="PENDING")):
        assert states(table, wanted, 10) == [b"new", b"away", b"old"]
        assert states(table, wanted, 2) == [b"new", b"away"]
        assert states(table, wanted._replace(archived=0), 10) == [b"new", b"old"]
        assert states(table, wanted._replace(archived=1), 10) == [b"away"]
    assert table.state("away") == b"away"
    assert (table.clock(), table.count()) == (3.0, 3)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT state FROM runs WHERE due_at <= 1 ORDER BY due_at LIMIT 9",
        "SELECT min(due_at) FROM runs WHERE due_at > 1",
        "SELECT clock FROM runs WHERE archived IS NULL ORDER BY seq DESC LIMIT 1",
        "SELECT clock FROM runs WHERE archived IS NOT NULL ORDER BY seq DESC LIMIT 1",
    ],
)
def test_what_is_asked_all_the_time_is_read_from_an_index(table: RunTable, query: str) -> None:
    plan = " ".join(str(step) for step in table._db.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert "USING" in plan
    assert "INDEX" in plan
    assert "TEMP B-TREE" not in plan


def test_those_that_are_not_over_come_in_one_order_whatever_they_are_at(table: RunTable) -> None:
    statuses = ("PENDING", "COMPLETED", "RUNNING", "CANCELLING", "FAILED", "PENDING", "CANCELLED", "RUNNING")
    rows = [row(str(at), float(at + 1), status=status, tenant="red") for at, status in enumerate(statuses)]
    filled(table, *rows, row("put away", 20.0, archived=1, tenant="red"), row("other", 30.0, tenant="blue"))
    wanted = Filter(active=1, tenant="red")
    assert states(table, wanted, 10) == [b"7", b"5", b"3", b"2", b"0"]
    assert states(table, wanted, 2) == [b"7", b"5"]
    below = [found.state for found in table.find(wanted, 2, below=6000)]
    assert below == [b"3", b"2"]
    assert states(table, wanted._replace(flow="none"), 10) == []


def test_a_short_id_is_looked_up_in_the_primary_key() -> None:
    from pyoco_server.read_model.run_table import _BY_PREFIX

    table = RunTable(None)
    plan = table.connection.execute("EXPLAIN QUERY PLAN " + _BY_PREFIX, ("ab", "b", 10, None, None, 5))
    steps = " ".join(row[3] for row in plan)
    assert "SEARCH runs USING PRIMARY KEY (run_id>? AND run_id<?)" in steps
