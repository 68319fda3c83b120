"""The table behind lists: one row a run, in SQLite, with an index for every filter. Disposable.

Durability would be wasted on it (the log is the truth), so it does without: `synchronous=OFF`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

# Raise it when the schema or what is in a row changes: an older file is thrown away and filled anew.
SCHEMA = 2

_CREATE = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY, tenant TEXT, flow TEXT NOT NULL, tag TEXT NOT NULL, status TEXT NOT NULL,
  updated_at REAL NOT NULL, owed_since REAL, instance TEXT, stuck_cancel INTEGER, state BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_time ON runs (updated_at, run_id);
CREATE INDEX runs_by_status ON runs (status, updated_at, run_id);
CREATE INDEX runs_by_flow ON runs (flow, updated_at, run_id);
CREATE INDEX runs_by_tag ON runs (tag, updated_at, run_id);
CREATE INDEX runs_by_status_flow ON runs (status, flow, updated_at, run_id);
CREATE INDEX runs_by_status_tag ON runs (status, tag, updated_at, run_id);
CREATE INDEX runs_owed ON runs (tag, owed_since) WHERE owed_since IS NOT NULL;
CREATE INDEX runs_claimed ON runs (instance) WHERE instance IS NOT NULL;
CREATE INDEX runs_stuck_cancel ON runs (stuck_cancel) WHERE stuck_cancel IS NOT NULL;
"""

_UPSERT = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Row(NamedTuple):
    run_id: str
    tenant: str | None
    flow: str
    tag: str
    status: str
    updated_at: float
    owed_since: float | None
    instance: str | None
    stuck_cancel: int | None
    state: bytes


class Filter(NamedTuple):
    """Every member that is set must match. `before` is where a page ended: (updated_at, run_id)."""

    status: str | None = None
    flow: str | None = None
    tag: str | None = None
    tenant: str | None = None
    updated_after: float | None = None
    before: tuple[float, str] | None = None


class ReadTable:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._db = self._open()

    def close(self) -> None:
        self._db.close()

    def wipe(self) -> None:
        """Begin with nothing, in a new file: the old one may be of another schema, or broken."""
        self._db.close()
        if self._path is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._db = self._connect()
        self._db.executescript(_CREATE)
        self._db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))

    def write(self, rows: Iterable[Row], gone: Iterable[str], meta: dict[str, str]) -> None:
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany(_UPSERT, rows)
            self._db.executemany("DELETE FROM runs WHERE run_id = ?", ((run_id,) for run_id in gone))
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())

    def meta(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT key, value FROM meta"))

    def state(self, run_id: str) -> bytes | None:
        return self._one("SELECT state FROM runs WHERE run_id = ?", run_id)

    def page(self, wanted: Filter, limit: int) -> list[bytes]:
        """States of the newest that match, newest first."""
        where, values = _where(wanted)
        order = "ORDER BY updated_at DESC, run_id DESC LIMIT ?"
        rows = self._db.execute(f"SELECT state FROM runs {where} {order}", (*values, limit))
        return [row[0] for row in rows]

    def owed(self, tag: str, before: float, limit: int) -> list[bytes]:
        rows = self._db.execute(
            "SELECT state FROM runs WHERE tag = ? AND owed_since <= ? ORDER BY owed_since LIMIT ?",
            (tag, before, limit),
        )
        return [row[0] for row in rows]

    def tags_that_owe(self) -> list[str]:
        """One step through the index per tag, however many runs each has."""
        tags: list[str] = []
        query = "SELECT min(tag) FROM runs WHERE owed_since IS NOT NULL AND tag > ?"
        while (tag := self._db.execute(query, (tags[-1] if tags else "",)).fetchone()[0]) is not None:
            tags.append(tag)
        return tags

    def stuck_cancels(self, limit: int) -> list[bytes]:
        rows = self._db.execute("SELECT state FROM runs WHERE stuck_cancel IS NOT NULL LIMIT ?", (limit,))
        return [row[0] for row in rows]

    def instances(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT instance FROM runs WHERE instance IS NOT NULL")}

    def claimed_by(self, instance: str, limit: int) -> list[bytes]:
        rows = self._db.execute("SELECT state FROM runs WHERE instance = ? LIMIT ?", (instance, limit))
        return [row[0] for row in rows]

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM runs").fetchone()[0])

    def _one(self, query: str, *values: str) -> bytes | None:
        row = self._db.execute(query, values).fetchone()
        return row[0] if row else None

    def _open(self) -> sqlite3.Connection:
        self._db = self._connect()
        try:
            if self.meta().get("schema") == str(SCHEMA) and self._is_sound():
                return self._db
        except sqlite3.DatabaseError:
            pass  # new, of another schema, or not a database: all the same to us
        self.wipe()
        return self._db

    def _is_sound(self) -> bool:
        """Written without fsync, it may not survive a power cut. Looking costs about 1 ms per MB."""
        return bool(self._db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))

    def _connect(self) -> sqlite3.Connection:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self._path or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=OFF")
        except sqlite3.DatabaseError:
            pass  # not a database: found out, and thrown away, by whoever reads it next
        return db


def _where(wanted: Filter) -> tuple[str, list[object]]:
    terms: list[str] = []
    values: list[object] = []
    for column in ("status", "flow", "tag", "tenant"):
        value = getattr(wanted, column)
        if value is not None:
            terms.append(f"{column} = ?")
            values.append(value)
    if wanted.updated_after is not None:
        terms.append("updated_at > ?")
        values.append(wanted.updated_after)
    if wanted.before is not None:
        terms.append("(updated_at, run_id) < (?, ?)")
        values += wanted.before
    return (f"WHERE {' AND '.join(terms)}" if terms else ""), values
