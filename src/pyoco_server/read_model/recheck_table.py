"""The tables behind the lists of strategies, results and requests: SQLite, indexed, disposable.

Every order has an index with the id as its last column, so that a page is read without sorting. The health of
a strategy is that of its latest result.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pyoco_server.read_model.disposable_sqlite import DisposableTables

SCHEMA = "2"

_CREATE = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE strategies (
  sid INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, title TEXT NOT NULL, instrument TEXT,
  enabled INTEGER NOT NULL, flow TEXT NOT NULL, profile TEXT NOT NULL, health TEXT NOT NULL, checked_at REAL,
  entry BLOB NOT NULL
);
CREATE UNIQUE INDEX by_id ON strategies (tenant, id);
CREATE INDEX by_id_down ON strategies (tenant, id DESC);
CREATE INDEX by_checked ON strategies (tenant, checked_at IS NULL, checked_at, id);
CREATE INDEX by_checked_down ON strategies (tenant, checked_at IS NULL, checked_at DESC, id);
CREATE INDEX by_instrument ON strategies (tenant, instrument IS NULL, instrument, id);
CREATE INDEX by_instrument_down ON strategies (tenant, instrument IS NULL, instrument DESC, id);
CREATE INDEX of_instrument ON strategies (tenant, instrument);
CREATE INDEX by_health ON strategies (tenant, health, id);
CREATE INDEX by_health_down ON strategies (tenant, health DESC, id);
CREATE TABLE tags (tenant TEXT, tag TEXT, sid INTEGER, PRIMARY KEY (tenant, tag, sid)) WITHOUT ROWID;
CREATE INDEX tags_of ON tags (sid);
CREATE VIRTUAL TABLE search USING fts5 (id, title, tokenize = 'trigram case_sensitive 1');
CREATE TABLE profiles (tenant TEXT PRIMARY KEY, rules BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE results (
  tenant TEXT, strategy TEXT, completed_at REAL, request_id TEXT, health TEXT NOT NULL, winrate REAL,
  sharpe REAL, max_dd REAL, digest TEXT NOT NULL,
  PRIMARY KEY (tenant, strategy, completed_at, request_id)
) WITHOUT ROWID;
CREATE INDEX results_old ON results (completed_at);
CREATE TABLE requests (
  request_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, submitted_at REAL NOT NULL, request BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX requests_old ON requests (submitted_at);
CREATE TABLE outcomes (
  request_id TEXT, batch INTEGER, completed_at REAL NOT NULL, success INTEGER NOT NULL,
  failed INTEGER NOT NULL, healthy INTEGER NOT NULL, degraded INTEGER NOT NULL, unknown INTEGER NOT NULL,
  PRIMARY KEY (request_id, batch)
) WITHOUT ROWID;
CREATE TABLE open_batches (
  run_id TEXT PRIMARY KEY, request_id TEXT NOT NULL, batch INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE artifacts (
  artifact_id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, strategy TEXT NOT NULL, request_id TEXT NOT NULL,
  created_at REAL NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, content_type TEXT NOT NULL,
  bytes_size INTEGER NOT NULL, object TEXT NOT NULL
);
CREATE INDEX artifacts_of ON artifacts (tenant, strategy, created_at);
CREATE INDEX artifacts_in ON artifacts (request_id, artifact_id);
"""

ORDERS = {
    "last_checked_at.asc": "checked_at IS NULL, checked_at, id",
    "last_checked_at.desc": "checked_at IS NULL, checked_at DESC, id",
    "id.asc": "id",
    "id.desc": "id DESC",
    "instrument.asc": "instrument IS NULL, instrument, id",
    "instrument.desc": "instrument IS NULL, instrument DESC, id",
    "health.asc": "health, id",
    "health.desc": "health DESC, id",
}

# Shorter texts have no trigram.
TRIGRAM = 3
# Up to this many matches, sorting is faster than a scan of the ordered index.
SORTED_MAX = 5_000

Row = tuple[object, ...]


class StrategySearch(NamedTuple):
    """Every member that is set must match, by any of its values. `text` is in the id or title."""

    tenant: str
    text: str = ""
    tags: tuple[str, ...] = ()
    health: tuple[str, ...] = ()
    instruments: tuple[str, ...] = ()
    enabled: bool | None = None


class RecheckTable(DisposableTables):
    def __init__(self, path: Path | None) -> None:
        super().__init__(path, SCHEMA, _CREATE)

    def run(self, query: str, *values: object) -> None:
        self._db.execute(query, values)

    def run_many(self, query: str, rows: Iterable[Row]) -> None:
        self._db.executemany(query, rows)

    def rows(self, query: str, *values: object) -> list[Row]:
        return self._db.execute(query, values).fetchall()

    def row(self, query: str, *values: object) -> Row | None:
        found: Row | None = self._db.execute(query, values).fetchone()
        return found

    def page(self, search: StrategySearch, order: str, limit: int, offset: int, *, total: int) -> list[Row]:
        """Entry, health and last check. `total`: how many match; few are sorted."""
        are_few = total <= SORTED_MAX
        where, values = _where(search, begin_with_filter=are_few)
        # With many matches a scan in order fills the page soon.
        source = "strategies" if are_few else f"strategies INDEXED BY {_index_of(order)}"
        query = f"SELECT entry, health, checked_at FROM {source} WHERE {where}"
        return self.rows(f"{query} ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?", *values, limit, offset)

    def count(self, search: StrategySearch) -> int:
        if search == StrategySearch(search.tenant, tags=search.tags) and search.tags:
            query = (
                f"SELECT count(DISTINCT sid) FROM tags WHERE tenant = ? AND tag IN ({_marks(search.tags)})"
            )
            row = self.row(query, search.tenant, *search.tags)
        else:
            where, values = _where(search, begin_with_filter=True)
            row = self.row(f"SELECT count(*) FROM strategies WHERE {where}", *values)
        assert row is not None
        return int(str(row[0]))

    def found(self, search: StrategySearch, limit: int) -> list[Row]:
        """Id and flow of all matching strategies, by id."""
        where, values = _where(search, begin_with_filter=False)
        return self.rows(f"SELECT id, flow FROM strategies WHERE {where} ORDER BY id LIMIT ?", *values, limit)


def _where(search: StrategySearch, *, begin_with_filter: bool) -> tuple[str, list[object]]:
    terms: list[str] = []
    given: list[object] = []
    if search.tags:
        terms.append(f"sid IN (SELECT sid FROM tags WHERE tenant = ? AND tag IN ({_marks(search.tags)}))")
        given += [search.tenant, *search.tags]
    if len(search.text) >= TRIGRAM:
        terms.append("sid IN (SELECT rowid FROM search WHERE search MATCH ?)")
        given.append('"' + search.text.replace('"', '""') + '"')
    elif search.text:
        terms.append("(instr(id, ?) > 0 OR instr(title, ?) > 0)")
        given += [search.text, search.text]
    # The `+` keeps SQLite from an ordered scan when a filter finds the few matches directly.
    narrow = begin_with_filter and bool(search.tags or len(search.text) >= TRIGRAM)
    terms.append("+tenant = ?" if narrow else "tenant = ?")
    given.append(search.tenant)
    if search.enabled is not None:
        terms.append("enabled = ?")
        given.append(int(search.enabled))
    # Without the `+` SQLite would use the index of the instrument and sort its strategies.
    instrument = "instrument" if begin_with_filter else "+instrument"
    for column, wanted in (("health", search.health), (instrument, search.instruments)):
        if wanted:
            terms.append(f"{column} IN ({_marks(wanted)})")
            given += wanted
    return " AND ".join(terms), given


def _index_of(order: str) -> str:
    column, _, direction = order.removeprefix("last_").replace("checked_at", "checked").partition(".")
    return f"by_{column}" + ("_down" if direction == "desc" else "")


def _marks(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))
