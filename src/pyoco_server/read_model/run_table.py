"""The table behind lists: one row per run, in SQLite, with an index for every filter. Disposable.

Rows are ordered by `seq`, the position of a run's last change in the log. It is unique, and a change always
moves a run to the front, independent of the clocks of the processes that changed it. `clock` is the latest
`updated_at` of all runs when the row was written. It never decreases from one change to the next, so a search
for runs that were updated after an instant can stop early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.read_model import tag_table
from pyoco_server.read_model.answers import (
    CREATE_ANSWERS,
    NEWEST,
    AnswerPlace,
    AnswerRow,
    GivenAnswer,
    page_of_answers,
    write_answers,
)
from pyoco_server.read_model.disposable_sqlite import DisposableTables
from pyoco_server.read_model.erased_runs import CREATE_ERASED, ErasedRun, erased_after, write_erased
from pyoco_server.read_model.run_rows import WAITING, FoundRun, Row, decode_all, newest_first
from pyoco_server.read_model.tag_table import SubmissionPosition, SubmittedRun, TagFilter, TagTable
from pyoco_server.read_model.waits import (
    CREATE_WAITS,
    OpenWait,
    WaitChanges,
    WaitPlace,
    page_of_waits,
    write_waits,
)

# RUNNING, and no task waits.
EXECUTING = "EXECUTING"
# The values of `Filter.status`.
LISTED_STATUSES = (*(status.value for status in RunStatus), WAITING, EXECUTING)

# Raise it when the schema or what is in a row changes: an older file is deleted and filled again.
SCHEMA = 14

_CREATE = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY, tenant TEXT, flow TEXT NOT NULL, tag TEXT NOT NULL, status TEXT NOT NULL,
  yaml TEXT, seq INTEGER NOT NULL, clock REAL NOT NULL, updated_at REAL NOT NULL,
  starts_at REAL, owed_since REAL, instance TEXT, stuck_cancel INTEGER, state BLOB NOT NULL, schedule TEXT,
  due_at REAL, archived INTEGER, batch TEXT
) WITHOUT ROWID;
CREATE INDEX runs_owed ON runs (tag, owed_since) WHERE owed_since IS NOT NULL;
CREATE INDEX runs_delayed ON runs (starts_at) WHERE starts_at IS NOT NULL;
CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_claimed ON runs (instance) WHERE instance IS NOT NULL;
CREATE INDEX runs_stuck_cancel ON runs (stuck_cancel) WHERE stuck_cancel IS NOT NULL;
"""

# The filters of lists. For other combinations the best of these indexes is scanned.
_LISTED_BY = ((), ("status",), ("flow",), ("tag",), ("status", "flow"), ("status", "tag"))
_LISTED_BY_YAML = (("yaml",), ("yaml", "status"))
_FILTERS = ("tenant", "schedule", "batch", "yaml", "status", "flow", "tag")
# A schedule belongs to one tenant.
_BY_SCHEDULE = (("schedule",), ("schedule", "status"))
# So does a batch.
_BY_BATCH = (("batch",), ("batch", "status"))
_RARE = frozenset({"tenant", "schedule", "batch", "yaml"})
# What the statuses of a filter are in the column. RUNNING includes runs that wait.
_LISTED_AS = {status.value: (status.value,) for status in RunStatus} | {
    RunStatus.RUNNING.value: (RunStatus.RUNNING.value, WAITING),
    WAITING: (WAITING,),
    EXECUTING: (RunStatus.RUNNING.value,),
}
_ACTIVE = tuple(status.value for status in RunStatus if not status.is_terminal)
ARCHIVED = {False: "archived IS NULL", True: "archived IS NOT NULL"}

_UPSERT = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
SEQ_MAX = 2**63 - 1
# Ids that begin with a prefix are looked at up to this number, also if they belong to other tenants.
PREFIX_LOOKED_AT_MAX = 1_000
_BY_PREFIX = """
SELECT state FROM (SELECT tenant, state FROM runs WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT ?)
WHERE ? IS NULL OR tenant = ? LIMIT ?
"""
_AFTER_ALL_IDS = "\U0010ffff"


class Filter(NamedTuple):
    """Every member that is set must match. `yaml`: the digest of a run's flow.yaml.

    `status`: one of `LISTED_STATUSES`, or several of them, separated by commas.

    `active`: only runs that have not ended. `archived`: 0 for no archived runs, 1 for only those.
    """

    status: str | None = None
    flow: str | None = None
    tag: str | None = None
    yaml: str | None = None
    tenant: str | None = None
    updated_after: float | None = None
    schedule: str | None = None
    batch: str | None = None
    active: int | None = None
    archived: int | None = None


class RunTable(DisposableTables):
    def __init__(self, path: Path | None) -> None:
        tables = _CREATE + tag_table.CREATE + CREATE_WAITS + CREATE_ANSWERS + CREATE_ERASED
        super().__init__(path, str(SCHEMA), tables + "".join(_list_indexes()))

    def write(
        self,
        rows: Iterable[Row],
        gone: Sequence[ErasedRun],
        meta: dict[str, str],
        begun: Iterable[SubmittedRun] = (),
        waits: WaitChanges | None = None,
        answers: Sequence[AnswerRow] = (),
    ) -> None:
        with self.transaction():
            self._db.executemany(_UPSERT, rows)
            TagTable(self._db).write(begun, [one.run_id for one in gone])
            self._db.executemany("DELETE FROM runs WHERE run_id = ?", ((one.run_id,) for one in gone))
            if gone:
                write_erased(self._db, gone)
            if waits:
                write_waits(self._db, waits)
            if answers or gone:
                write_answers(self._db, answers, [one.run_id for one in gone])
            self.write_meta(meta)

    def state(self, run_id: str) -> bytes | None:
        return self._one("SELECT state FROM runs WHERE run_id = ?", run_id)

    def place(self, run_id: str) -> int:
        """The position of its last change in the log; 0 if the run is not known."""
        row = self._db.execute("SELECT seq FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return int(row[0]) if row else 0

    def with_prefix(self, prefix: str, tenant: str | None, limit: int) -> list[Run]:
        """Runs whose id begins with this text, by id: a range of the primary key, never a scan."""
        most = PREFIX_LOOKED_AT_MAX
        values = (prefix, prefix + _AFTER_ALL_IDS, most, tenant, tenant, limit)
        return decode_all([state for (state,) in self._db.execute(_BY_PREFIX, values)])

    def erased_after(self, seq: int, limit: int) -> list[ErasedRun]:
        """Runs that were erased after this position of the log, the oldest first; of the latest thousand."""
        return erased_after(self._db, seq, limit)

    def page(self, wanted: Filter, limit: int) -> list[Run]:
        """Matching runs, the latest change first."""
        return newest_first(self.find(wanted, limit))

    def changed_after(self, seq: int, tenant: str | None, limit: int) -> list[Run]:
        """Runs whose last change is after this position of the log, the oldest change first."""
        found = self.find(Filter(tenant=tenant), limit, above=seq)
        return decode_all([one.state for one in reversed(found)])

    def find(self, wanted: Filter, limit: int, *, above: int = 0, below: int = SEQ_MAX) -> list[FoundRun]:
        """Matching runs whose last change is between these positions of the log, the latest first."""
        cursors = [self._db.execute(*page_query(one, above, below)) for one in _parts(wanted)]
        # Each yields the latest first, and so does their merge, which reads no more rows than it yields.
        rows = merge(*cursors, key=lambda row: -row[0])
        try:
            return list(islice(_updated_after(wanted.updated_after, rows), limit))
        finally:
            for cursor in cursors:
                cursor.close()

    def begun(self, wanted: TagFilter, limit: int, after: SubmissionPosition | None) -> list[Run]:
        """Runs by tags, the latest submission first."""
        return decode_all(TagTable(self._db).page(wanted, limit, after))

    def clock(self) -> float:
        latest = "SELECT clock FROM runs WHERE archived IS {} ORDER BY seq DESC LIMIT 1"
        rows = (self._db.execute(latest.format(kind)).fetchone() for kind in ("NULL", "NOT NULL"))
        return max((float(row[0]) for row in rows if row), default=0.0)

    def counts_by_tenant(self) -> list[tuple[str | None, str, int]]:
        """Tenant, listed status and how many. Scans all runs: only for a file without stored sums."""
        return list(self._db.execute("SELECT tenant, status, count(*) FROM runs GROUP BY tenant, status"))

    def counts_of_batch(self, batch: str) -> dict[str, int]:
        """By listed status. Costs a step of an index for each run of the batch."""
        return self._counts("batch", batch)

    def counts_of_schedule(self, schedule_id: str) -> dict[str, int]:
        """By status. Costs a step of an index for each run of the schedule."""
        found = self._counts("schedule", schedule_id)
        if waiting := found.pop(WAITING, 0):
            found[RunStatus.RUNNING.value] = found.get(RunStatus.RUNNING.value, 0) + waiting
        return found

    def changed_since(self, instant: float) -> list[tuple[str | None, str, float]]:
        """Tenant, status and last change. Scans all runs, as above."""
        query = "SELECT tenant, status, updated_at FROM runs WHERE updated_at >= ?"
        running = RunStatus.RUNNING.value
        return [
            (tenant, running if status == WAITING else status, updated_at)
            for tenant, status, updated_at in self._db.execute(query, (instant,))
        ]

    def flows(self, tenant: str | None, limit: int) -> list[str]:
        """Names in order: one index step for each, for any number of runs."""
        flows: list[str] = []
        index = index_name(("flow",) if tenant is None else ("tenant", "flow"), archived=False)
        term, values = ("", []) if tenant is None else ("tenant = ? AND ", [tenant])
        query = f"SELECT min(flow) FROM runs INDEXED BY {index} WHERE archived IS NULL AND {term}flow > ?"
        while len(flows) < limit:
            [name] = self._db.execute(query, [*values, flows[-1] if flows else ""]).fetchone()
            if name is None:
                break
            flows.append(name)
        return flows

    def waiting(
        self, tenant: str | None, limit: int, after: WaitPlace | None = None
    ) -> list[tuple[WaitPlace, OpenWait]]:
        """Open waits, the longest waiting first, from this position on."""
        return page_of_waits(self._db, tenant, limit, after or WaitPlace(0, 0))

    def answers(
        self, tenant: str | None, limit: int, before: AnswerPlace = NEWEST
    ) -> list[tuple[AnswerPlace, GivenAnswer]]:
        """Answers to waits, the latest first, from this position on."""
        return page_of_answers(self._db, tenant, limit, before)

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM runs").fetchone()[0])

    def _counts(self, column: str, value: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        for archived in (False, True):
            source = f"runs INDEXED BY {index_name((column, 'status'), archived)}"
            where = f"{ARCHIVED[archived]} AND {column} = ? GROUP BY status"
            query = f"SELECT status, count(*) FROM {source} WHERE {where}"
            for status, count in self._db.execute(query, (value,)):
                counts[status] = counts.get(status, 0) + count
        return counts

    def _one(self, query: str, *values: str) -> bytes | None:
        row = self._db.execute(query, values).fetchone()
        return row[0] if row else None


def page_query(wanted: Filter, above: int, below: int) -> tuple[str, list[object]]:
    given = [column for column in _FILTERS if getattr(wanted, column) is not None]
    terms = "".join(f"{column} = ? AND " for column in given)
    # INDEXED BY: the index is chosen here and not by SQLite.
    source = f"runs INDEXED BY {index_name(_best_index(given), bool(wanted.archived))}"
    columns = "seq, clock, updated_at, state"
    where = f"{ARCHIVED[bool(wanted.archived)]} AND {terms}seq > ? AND seq < ?"
    query = f"SELECT {columns} FROM {source} WHERE {where} ORDER BY seq DESC"
    return query, [*(getattr(wanted, column) for column in given), above, below]


def _parts(wanted: Filter) -> list[Filter]:
    """An index covers one status at a time, and either archived runs or the others."""
    if wanted.active:  # archived runs have ended
        return [wanted._replace(status=status, archived=0) for status in listed_as(_ACTIVE)]
    kinds = (0, 1) if wanted.archived is None else (wanted.archived,)
    statuses = listed_as(wanted.status.split(",")) if wanted.status else [None]
    return [wanted._replace(status=status, archived=kind) for status, kind in product(statuses, kinds)]


def listed_as(statuses: Iterable[str]) -> Sequence[str | None]:
    """Values of the column `status`, each once."""
    return list(dict.fromkeys(value for status in statuses for value in _LISTED_AS.get(status, (status,))))


def _updated_after(
    instant: float | None, rows: Iterable[tuple[int, float, float, bytes]]
) -> Iterator[FoundRun]:
    for seq, clock, updated_at, state in rows:
        if instant is not None and clock <= instant:
            return  # no run was later when this row was written, so no older row is
        if instant is None or updated_at > instant:
            yield FoundRun(seq, state)


def _list_indexes() -> Iterator[str]:
    """Indexes of tenants, schedules and YAML contain only runs that have one: without any they cost nothing.

    Each exists twice, for archived runs and for the others, so that no list has to skip runs of the other
    kind.
    """
    owners: tuple[tuple[str, ...], ...] = ((), ("tenant",))
    listed = ((*owner, *columns) for columns in (*_LISTED_BY, *_LISTED_BY_YAML) for owner in owners)
    for columns, archived in product((*listed, *_BY_SCHEDULE, *_BY_BATCH), (False, True)):
        rare = "".join(f" AND {name} IS NOT NULL" for name in columns if name in _RARE)
        name, order = index_name(columns, archived), ", ".join((*columns, "seq"))
        yield f"CREATE INDEX {name} ON runs ({order}) WHERE {ARCHIVED[archived]}{rare};\n"


def index_name(columns: Iterable[str], archived: bool) -> str:
    return "_".join(("archived_by" if archived else "runs_by", *columns, "seq"))


def _best_index(given: Iterable[str]) -> tuple[str, ...]:
    asked = set(given)
    for name, indexes in (("batch", _BY_BATCH), ("schedule", _BY_SCHEDULE)):
        if name in asked:
            return indexes["status" in asked]
    owner = ("tenant",) if "tenant" in asked else ()
    known = (*_LISTED_BY_YAML, *_LISTED_BY) if "yaml" in asked else _LISTED_BY
    fitting = [columns for columns in known if set(columns) <= asked]
    # The filter by YAML leaves the fewest runs, so its index is always the best.
    return (*owner, *max(fitting, key=lambda columns: ("yaml" in columns, len(columns))))
