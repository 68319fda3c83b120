"""The open waits of all runs that need an answer, oldest first.

A row has the position of the log at which its wait began. It never changes, so pages miss and repeat none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.run import Run, Wait
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX

CREATE_WAITS = """
CREATE TABLE waits (
  run_id TEXT NOT NULL, task TEXT NOT NULL, tenant TEXT, seq INTEGER NOT NULL, number INTEGER NOT NULL,
  state BLOB NOT NULL, PRIMARY KEY (run_id, task)
) WITHOUT ROWID;
CREATE INDEX waits_by_seq ON waits (seq, number);
CREATE INDEX waits_by_tenant_seq ON waits (tenant, seq, number) WHERE tenant IS NOT NULL;
"""


class OpenWait(msgspec.Struct, frozen=True, kw_only=True):
    """A task that waits for an answer, and what is needed to answer it."""

    run_id: str
    task: str
    wait_key: str
    prompt: JsonObject | None
    since: float
    deadline_at: float | None
    flow_name: str
    tag: str


class WaitRow(NamedTuple):
    run_id: str
    task: str
    tenant: str | None
    seq: int
    number: int
    state: bytes


class WaitPlace(NamedTuple):
    """The position of a wait: the sequence of its commit, and its number in the commit."""

    seq: int
    number: int


Key = tuple[str, str]
WaitChanges = Mapping[Key, WaitRow | None]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OpenWait).decode


def wait_changes(before: Run | None, after: Run, seq: int) -> Iterator[tuple[Key, WaitRow | None]]:
    """The waits that a commit has opened, and those that it has closed (None)."""
    was, now = _open(before), _open(after)
    for task in was.keys() - now.keys():
        yield (after.run_id, task), None
    begun = [task for task in now if was.get(task) != now[task]]
    for number, task in enumerate(begun):
        yield (after.run_id, task), _row(after, task, now[task], WaitPlace(seq, number))


def write_waits(db: sqlite3.Connection, changes: WaitChanges) -> None:
    db.executemany("DELETE FROM waits WHERE run_id = ? AND task = ?", changes.keys())
    rows = (row for row in changes.values() if row is not None)
    db.executemany("INSERT OR REPLACE INTO waits VALUES (?, ?, ?, ?, ?, ?)", rows)


def page_of_waits(
    db: sqlite3.Connection, tenant: str | None, limit: int, after: WaitPlace
) -> list[tuple[WaitPlace, OpenWait]]:
    """Waits that began after this position, the longest waiting first; of all tenants, or of one."""
    source, term = ("waits_by_seq", "") if tenant is None else ("waits_by_tenant_seq", "tenant = ? AND ")
    values = [*after, limit] if tenant is None else [tenant, *after, limit]
    query = (
        f"SELECT seq, number, state FROM waits INDEXED BY {source} "
        f"WHERE {term}(seq, number) > (?, ?) ORDER BY seq, number LIMIT ?"
    )
    return [(WaitPlace(seq, number), _decode(state)) for seq, number, state in db.execute(query, values)]


def _open(run: Run | None) -> dict[str, Wait]:
    """A sleep needs no answer, and a cancelled run takes none."""
    if run is None or run.gone or run.cancel is not None:
        return {}
    return {task: wait for task, wait in run.waits.items() if not wait.key.startswith(SLEEP_KEY_PREFIX)}


def _row(run: Run, task: str, wait: Wait, place: WaitPlace) -> WaitRow:
    shown = OpenWait(
        run_id=run.run_id,
        task=task,
        wait_key=wait.key,
        prompt=wait.prompt,
        since=wait.since,
        deadline_at=wait.deadline_at,
        flow_name=run.flow_name,
        tag=run.tag,
    )
    return WaitRow(run.run_id, task, run.tenant_id, *place, _encode(shown))
