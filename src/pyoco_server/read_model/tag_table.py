"""Runs by when they were submitted and by their tags, in the same SQLite file as `run_table`. Disposable.

Two tables. `begun` has a row per run; its order never changes, so that a page begins right after the last run
of the page before. `sorted_runs` reads it too. `job_tags` is the inverted index from a tag to its runs,
newest first. A row is written only when the stage or the tags of a run have changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

CREATE = """
CREATE TABLE begun (
  run_id TEXT PRIMARY KEY, tenant TEXT, stage TEXT NOT NULL, created REAL NOT NULL, tags TEXT NOT NULL,
  flow TEXT NOT NULL, took REAL, retry_of TEXT
) WITHOUT ROWID;
CREATE INDEX begun_all ON begun (created, run_id);
CREATE INDEX begun_stage ON begun (stage, created, run_id);
CREATE INDEX begun_tenant ON begun (tenant, created, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX begun_tenant_stage ON begun (tenant, stage, created, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX begun_flow_stage ON begun (flow, stage, created, run_id);
CREATE INDEX begun_tenant_flow_stage ON begun (tenant, flow, stage, created, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX begun_took ON begun (stage, took, run_id) WHERE took IS NOT NULL;
CREATE INDEX begun_tenant_took ON begun (tenant, stage, took, run_id)
  WHERE took IS NOT NULL AND tenant IS NOT NULL;
CREATE INDEX begun_flow_took ON begun (flow, stage, took, run_id) WHERE took IS NOT NULL;
CREATE INDEX begun_retries ON begun (retry_of, created, run_id) WHERE retry_of IS NOT NULL;
CREATE TABLE job_tags (
  tag TEXT NOT NULL, created REAL NOT NULL, run_id TEXT NOT NULL, stage TEXT NOT NULL, tenant TEXT,
  PRIMARY KEY (tag, created, run_id)
) WITHOUT ROWID;
CREATE INDEX job_tags_stage ON job_tags (tag, stage, created, run_id);
CREATE INDEX job_tags_tenant ON job_tags (tenant, tag, created, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX job_tags_tenant_stage ON job_tags (tenant, tag, stage, created, run_id) WHERE tenant IS NOT NULL;
"""

# The runs of a tag are counted up to this number to find the rarest of several tags.
COUNTED_MAX = 1_000

_PUT = "INSERT OR REPLACE INTO begun VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_TAG = "INSERT OR REPLACE INTO job_tags VALUES (?, ?, ?, ?, ?)"
_KNOWN = "SELECT * FROM begun WHERE run_id IN (SELECT value FROM json_each(?))"
_DROP = "DELETE FROM begun WHERE run_id = ?"
_DROP_TAG = "DELETE FROM job_tags WHERE tag = ? AND created = ? AND run_id = ?"


class SubmittedRun(NamedTuple):
    """`stage`: its status, whether or not it was asked to stop. `took`: from its start to its end."""

    run_id: str
    tenant: str | None
    stage: str
    created: float
    tags: tuple[str, ...]
    flow: str = ""
    took: float | None = None
    retry_of: str | None = None


class TagFilter(NamedTuple):
    """All of these tags, this stage, this tenant; a member that is not set matches everything."""

    tags: tuple[str, ...] = ()
    stage: str | None = None
    tenant: str | None = None


class SubmissionPosition(NamedTuple):
    """The last run of a page: the next one begins after it."""

    created: float
    run_id: str


class TagTable:
    """Uses the connection of its owner, within the owner's transactions."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def write(self, rows: Iterable[SubmittedRun], gone: Iterable[str]) -> None:
        wanted = {row.run_id: row for row in rows}
        known = self._known(wanted)
        changed = [row for row in wanted.values() if known.get(row.run_id) != row]
        self._untag(
            (before, set(before.tags) - set(row.tags)) for row in changed if (before := known.get(row.run_id))
        )
        self._db.executemany(
            _PUT, ((*row[:4], msgspec.json.encode(row.tags).decode(), *row[5:]) for row in changed)
        )
        self._db.executemany(
            _PUT_TAG,
            ((tag, row.created, row.run_id, row.stage, row.tenant) for row in changed for tag in row.tags),
        )
        self._drop(gone)

    def page(self, wanted: TagFilter, limit: int, after: SubmissionPosition | None) -> list[bytes]:
        """States of matching runs, newest first."""
        query, values = page_query(self._rarest_first(wanted), after)
        return [row[0] for row in self._db.execute(query, [*values, limit])]

    def _drop(self, gone: Iterable[str]) -> None:
        known = self._known(gone)
        self._untag((run, run.tags) for run in known.values())
        self._db.executemany(_DROP, ((run_id,) for run_id in known))

    def _untag(self, tags_of: Iterable[tuple[SubmittedRun, Iterable[str]]]) -> None:
        self._db.executemany(
            _DROP_TAG, ((tag, run.created, run.run_id) for run, tags in tags_of for tag in tags)
        )

    def _known(self, run_ids: Iterable[str]) -> dict[str, SubmittedRun]:
        """The rows of these runs, with one statement for all of them."""
        asked = msgspec.json.encode(list(run_ids)).decode()
        return {
            row[0]: SubmittedRun._make((*row[:4], tuple(msgspec.json.decode(row[4])), *row[5:]))
            for row in self._db.execute(_KNOWN, (asked,))
        }

    def _rarest_first(self, wanted: TagFilter) -> TagFilter:
        """The runs of the first tag are scanned."""
        if len(wanted.tags) < 2:
            return wanted
        return wanted._replace(tags=tuple(sorted(wanted.tags, key=self._count)))

    def _count(self, tag: str) -> int:
        query = "SELECT count(*) FROM (SELECT 1 FROM job_tags WHERE tag = ? LIMIT ?)"
        return int(self._db.execute(query, (tag, COUNTED_MAX)).fetchone()[0])


def page_query(wanted: TagFilter, after: SubmissionPosition | None) -> tuple[str, list[object]]:
    terms = list(_terms(wanted, after))
    conditions = " AND ".join(text for text, _ in terms) or "1"
    # CROSS JOIN fixes the join order: the index gives the order, and the limit ends the scan.
    query = (
        f"SELECT runs.state FROM {_source(wanted)} CROSS JOIN runs ON runs.run_id = b.run_id "
        f"WHERE {conditions} ORDER BY b.created DESC, b.run_id DESC LIMIT ?"
    )
    return query, [value for _, values in terms for value in values]


def _source(wanted: TagFilter) -> str:
    """INDEXED BY: the index is chosen here and not by SQLite."""
    named = [name for name in ("tenant", "stage") if getattr(wanted, name) is not None]
    if not wanted.tags:
        return f"begun AS b INDEXED BY {'_'.join(('begun', *(named or ['all'])))}"
    # By tag alone, the primary key of `job_tags` is used.
    return f"job_tags AS b INDEXED BY {'_'.join(('job_tags', *named))}" if named else "job_tags AS b"


def _terms(wanted: TagFilter, after: SubmissionPosition | None) -> Iterator[tuple[str, tuple[object, ...]]]:
    if wanted.tenant is not None:
        yield "b.tenant = ?", (wanted.tenant,)
    if wanted.tags:
        yield "b.tag = ?", (wanted.tags[0],)
    if wanted.stage is not None:
        yield "b.stage = ?", (wanted.stage,)
    if after is not None:
        yield "(b.created, b.run_id) < (?, ?)", (after.created, after.run_id)
    for tag in wanted.tags[1:]:
        also = "SELECT 1 FROM job_tags AS o WHERE o.tag = ? AND o.created = b.created AND o.run_id = b.run_id"
        yield f"EXISTS ({also})", (tag,)
