"""Runs that were erased recently, in the same SQLite file as `run_table`: for readers that resume.

Only the latest are kept. A reader that has missed more must read the list again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

CREATE_ERASED = """
CREATE TABLE gone (
  run_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, before INTEGER NOT NULL, tenant TEXT, has_owner INTEGER
) WITHOUT ROWID;
CREATE INDEX gone_seq ON gone (seq);
"""

# More than a reader that resumes is sent.
KEPT_MAX = 1_000

_PUT = "INSERT OR REPLACE INTO gone VALUES (?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM gone WHERE seq <= (SELECT seq FROM gone ORDER BY seq DESC LIMIT 1 OFFSET ?)"
_AFTER = "SELECT run_id, seq, before, tenant, has_owner FROM gone WHERE seq > ? ORDER BY seq LIMIT ?"


class ErasedRun(NamedTuple):
    """`seq`: position of the erasure in the log. `before`: that of the last change before, 0 if not known.

    `has_owner`: the tenant is known. It is not if only the mark of the erasure was read.
    """

    run_id: str
    seq: int
    before: int
    tenant: str | None
    has_owner: bool


def write_erased(db: sqlite3.Connection, gone: Iterable[ErasedRun]) -> None:
    db.executemany(_PUT, gone)
    db.execute(_FORGET, (KEPT_MAX,))


def erased_after(db: sqlite3.Connection, seq: int, limit: int) -> list[ErasedRun]:
    """The oldest first."""
    rows = db.execute(_AFTER, (seq, limit))
    return [ErasedRun(run_id, at, before, tenant, bool(known)) for run_id, at, before, tenant, known in rows]
