"""Queries of housekeeping on the table of runs: owed a job, due, claimed, stuck, or ended long ago.

Each has its own index (`run_table`) and costs the same for any number of runs.
"""

from __future__ import annotations

import sqlite3
from heapq import merge
from itertools import islice, product
from typing import NamedTuple

from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TERMINAL
from pyoco_server.read_model.run_rows import decode
from pyoco_server.read_model.run_table import ARCHIVED, index_name


class EndedRun(NamedTuple):
    run_id: str
    updated_at: float


class HousekeepingQueries:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def oldest_ended(self, limit: int) -> list[EndedRun]:
        """Runs that have ended, the oldest last change first."""
        query = "SELECT seq, run_id, updated_at FROM runs INDEXED BY {} WHERE {} AND status = ? ORDER BY seq"
        kinds = [(index_name(("status",), archived), ARCHIVED[archived]) for archived in (False, True)]
        asked = product(kinds, sorted(TERMINAL))
        rows = [self._db.execute(f"{query.format(*kind)} LIMIT ?", (status, limit)) for kind, status in asked]
        return [EndedRun(run_id, updated_at) for _, run_id, updated_at in islice(merge(*rows), limit)]

    def owed(self, tag: str, *, before: float, limit: int) -> list[Run]:
        return self._runs("tag = ? AND owed_since <= ? ORDER BY owed_since LIMIT ?", tag, before, limit)

    def owed_before(self, tag: str, instant: float, *, at_most: int) -> int:
        """How many runs have waited longer for a worker of this tag; counted no further than `at_most`."""
        query = "SELECT count(*) FROM (SELECT 1 FROM runs WHERE tag = ? AND owed_since < ? LIMIT ?)"
        return int(self._db.execute(query, (tag, instant, at_most)).fetchone()[0])

    def tags_that_owe(self) -> list[str]:
        """One index step per tag, for any number of runs."""
        tags: list[str] = []
        query = "SELECT min(tag) FROM runs WHERE owed_since IS NOT NULL AND tag > ?"
        while (tag := self._db.execute(query, (tags[-1] if tags else "",)).fetchone()[0]) is not None:
            tags.append(tag)
        return tags

    def oldest_owed(self) -> dict[str, float]:
        """By tag: since when the longest waiting run has waited for a worker."""
        query = "SELECT min(owed_since) FROM runs WHERE tag = ? AND owed_since IS NOT NULL"
        return {tag: float(self._db.execute(query, (tag,)).fetchone()[0]) for tag in self.tags_that_owe()}

    def delayed(self, *, until: float, limit: int) -> list[Run]:
        """Runs whose start is due by then and that have no job yet, the earliest first."""
        return self._runs("starts_at <= ? ORDER BY starts_at LIMIT ?", until, limit)

    def due(self, *, until: float, limit: int) -> list[Run]:
        """Runs with a timer that is due by then, the earliest first."""
        return self._runs("due_at <= ? ORDER BY due_at LIMIT ?", until, limit)

    def next_due(self, *, after: float) -> float | None:
        row = self._db.execute("SELECT min(due_at) FROM runs WHERE due_at > ?", (after,)).fetchone()
        return None if row[0] is None else float(row[0])

    def stuck_cancels(self, limit: int) -> list[Run]:
        """Cancelled, without a claim, and not ended: should not occur, and would never end by itself."""
        return self._runs("stuck_cancel IS NOT NULL LIMIT ?", limit)

    def claiming_instances(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT instance FROM runs WHERE instance IS NOT NULL")}

    def claimed_by(self, instance: str, limit: int) -> list[Run]:
        return self._runs("instance = ? LIMIT ?", instance, limit)

    def ids_claimed_by(self, instance: str) -> list[str]:
        """From the index alone: called for every live worker each second."""
        return [row[0] for row in self._db.execute("SELECT run_id FROM runs WHERE instance = ?", (instance,))]

    def _runs(self, where: str, *values: object) -> list[Run]:
        return [decode(row[0]) for row in self._db.execute(f"SELECT state FROM runs WHERE {where}", values)]
