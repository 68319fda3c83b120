"""The answers that were given to waits, the latest first: the history behind `/approvals/history`.

A row has the position of the log at which the answer was given. It never changes, so pages miss and repeat
none. The rows of a run are erased with the run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.events import Event, TaskResumed
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX

CREATE_ANSWERS = """
CREATE TABLE answers (
  run_id TEXT NOT NULL, seq INTEGER NOT NULL, number INTEGER NOT NULL, tenant TEXT, state BLOB NOT NULL,
  PRIMARY KEY (run_id, seq, number)
) WITHOUT ROWID;
CREATE INDEX answers_by_seq ON answers (seq, number);
CREATE INDEX answers_by_tenant_seq ON answers (tenant, seq, number) WHERE tenant IS NOT NULL;
"""
APPROVE = "approve"
REJECT = "reject"


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, and the question as it was asked. `by`: None if authentication was off."""

    run_id: str
    task: str
    flow_name: str
    tag: str
    prompt: JsonObject | None
    since: float | None
    decision: str
    by: str | None
    comment: str | None
    answered_at: float


class AnswerPlace(NamedTuple):
    """The position of an answer: the sequence of its commit, and its number in the commit."""

    seq: int
    number: int


class AnswerRow(NamedTuple):
    run_id: str
    seq: int
    number: int
    tenant: str | None
    state: bytes


# Before all answers, the latest first.
NEWEST = AnswerPlace(2**63 - 1, 0)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GivenAnswer).decode


def answers_in(before: Run | None, after: Run, events: Sequence[Event], seq: int) -> Iterator[AnswerRow]:
    """The answers that a commit contains. The end of a sleep by an answer is none."""
    for number, event in enumerate(events):
        if not isinstance(event, TaskResumed):
            continue
        wait = before.waits.get(event.task) if before is not None else None
        if wait is not None and wait.key.startswith(SLEEP_KEY_PREFIX):
            continue
        given = GivenAnswer(
            run_id=after.run_id,
            task=event.task,
            flow_name=after.flow_name,
            tag=after.tag,
            prompt=wait.prompt if wait is not None else None,
            since=wait.since if wait is not None else None,
            decision=REJECT if event.rejected else APPROVE,
            by=event.by,
            comment=event.comment,
            answered_at=event.at,
        )
        yield AnswerRow(after.run_id, seq, number, after.tenant_id, _encode(given))


def write_answers(db: sqlite3.Connection, rows: Iterable[AnswerRow], gone: Iterable[str]) -> None:
    db.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", rows)
    db.executemany("DELETE FROM answers WHERE run_id = ?", ((run_id,) for run_id in gone))


def page_of_answers(
    db: sqlite3.Connection, tenant: str | None, limit: int, before: AnswerPlace
) -> list[tuple[AnswerPlace, GivenAnswer]]:
    """Answers that were given before this position, the latest first; of all tenants, or of one."""
    source, term = ("answers_by_seq", "") if tenant is None else ("answers_by_tenant_seq", "tenant = ? AND ")
    values = [*before, limit] if tenant is None else [tenant, *before, limit]
    query = (
        f"SELECT seq, number, state FROM answers INDEXED BY {source} "
        f"WHERE {term}(seq, number) < (?, ?) ORDER BY seq DESC, number DESC LIMIT ?"
    )
    return [(AnswerPlace(seq, number), _decode(state)) for seq, number, state in db.execute(query, values)]
