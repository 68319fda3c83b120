"""Runs sorted by their submission or their duration, in pages, from `tag_table` and `run_table`.

Neither value changes once it is known, so a page begins right after the last run of the page before, and no
run is shown twice. Status, flow, tenant and `retry_of` have an index. Other filters are applied to a bounded
number of runs for each page.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TERMINAL, RunStatus
from pyoco_server.read_model.run_rows import WAITING, decode
from pyoco_server.read_model.run_table import ARCHIVED, Filter, listed_as

BY_CHANGE = "-updated"
BY_SUBMISSION = "-submitted"
# A minus: the greatest value first.
ORDERS = (BY_CHANGE, BY_SUBMISSION, "submitted", "-duration", "duration")

_RUNNING, _PENDING = RunStatus.RUNNING.value, RunStatus.PENDING.value
# In `begun` a status is a stage: CANCELLING and WAITING are not among them.
_STAGES = {WAITING: (_RUNNING,), RunStatus.CANCELLING.value: (_PENDING, _RUNNING)}
_ALL_STAGES = tuple(status.value for status in RunStatus if status is not RunStatus.CANCELLING)
_ENDED = tuple(sorted(status.value for status in TERMINAL))


class Sorting(NamedTuple):
    """One of `ORDERS`, and what only sorted lists can be narrowed to. By duration: of runs that have one."""

    order: str = BY_SUBMISSION
    submitted_after: float | None = None
    submitted_before: float | None = None
    retry_of: str | None = None


class SortedPosition(NamedTuple):
    """The last run that was looked at: the value that is sorted by, and its id."""

    value: float
    run_id: str


class SortedPage(NamedTuple):
    """`following`: where the next page begins; None if there is none."""

    runs: list[Run]
    following: SortedPosition | None


Row = tuple[float, str, bytes | None]
Fits = Callable[[Run], bool]
# A condition, and its value or values.
Term = tuple[str, object]


def sorted_page(
    db: sqlite3.Connection,
    wanted: Filter,
    sorting: Sorting,
    limit: int,
    after: SortedPosition | None,
    *,
    looked_at_max: int,
    fits: Fits,
) -> SortedPage:
    """At most `limit` runs that match and fit, of at most `looked_at_max` that are looked at."""
    cursors = [db.execute(*query) for query in queries(wanted, sorting, after)]
    try:
        rows: Iterator[Row] = merge(*cursors, key=lambda row: row[:2], reverse=_is_descending(sorting))
        return _taken(islice(rows, looked_at_max + 1), limit, looked_at_max, fits)
    finally:
        for cursor in cursors:
            cursor.close()


def _taken(rows: Iterable[Row], limit: int, looked_at_max: int, fits: Fits) -> SortedPage:
    runs: list[Run] = []
    last: SortedPosition | None = None
    for looked_at, (value, run_id, state) in enumerate(rows):
        if looked_at == looked_at_max or len(runs) == limit:
            return SortedPage(runs, last)
        last = SortedPosition(value, run_id)
        if state is not None and fits(run := decode(state)):
            runs.append(run)
    return SortedPage(runs, None)


def queries(wanted: Filter, sorting: Sorting, after: SortedPosition | None) -> list[tuple[str, list[object]]]:
    """One for each stage, if the index has the stage. Each yields its rows in the order asked for."""
    key, direction = _key(sorting), "DESC" if _is_descending(sorting) else "ASC"
    index, columns, stages = _access(wanted, sorting)
    given = {"tenant": wanted.tenant, "flow": wanted.flow, "retry_of": sorting.retry_of}
    named: list[Term] = [(f"b.{name} = ?", value) for name, value in given.items() if value is not None]
    submitted = list(_submitted(sorting))
    # What the index does not have must not skip rows: they would not be counted.
    bounds = [term for term in named if _column(term) in columns] + (submitted if key == "created" else [])
    others = [term for term in named if _column(term) not in columns]
    others += [] if key == "created" else submitted
    shown, values = _shown([*others, *_of_row(wanted)])
    if after is not None:
        bounds.append((f"(b.{key}, b.run_id) {'<' if direction == 'DESC' else '>'} (?, ?)", after))
    present = [] if key == "created" else [f"b.{key} IS NOT NULL"]
    made: list[tuple[str, list[object]]] = []
    for stage in stages:
        own = [("b.stage = ?", stage), *bounds] if "stage" in columns else bounds
        where = " AND ".join([*(text for text, _ in own), *present]) or "1"
        # CROSS JOIN fixes the join order, INDEXED BY the index: it gives the order.
        query = (
            f"SELECT b.{key}, b.run_id, {shown} FROM begun AS b INDEXED BY {index} "
            f"CROSS JOIN runs ON runs.run_id = b.run_id WHERE {where} "
            f"ORDER BY b.{key} {direction}, b.run_id {direction}"
        )
        made.append((query, [*values, *(one for _, value in own for one in _flat(value))]))
    return made


def _access(wanted: Filter, sorting: Sorting) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The index, its columns before the value, and the stages to read, one after the other."""
    stages = _stages(wanted)
    if _key(sorting) == "took":
        stages = tuple(stage for stage in stages or _ENDED if stage in _ENDED)
        # A flow leaves fewer runs than a tenant does.
        owner = ("flow",) if wanted.flow is not None else ("tenant",) if wanted.tenant is not None else ()
        return "_".join(("begun", *owner, "took")), (*owner, "stage"), stages
    if sorting.retry_of is not None:
        return "begun_retries", ("retry_of",), _ALL_STAGES[:1]
    named = [name for name in ("tenant", "flow") if getattr(wanted, name) is not None]
    if wanted.flow is None and not stages:
        return "_".join(("begun", *(named or ["all"]))), tuple(named), _ALL_STAGES[:1]
    return "_".join(("begun", *named, "stage")), (*named, "stage"), stages or _ALL_STAGES


def _stages(wanted: Filter) -> tuple[str, ...]:
    """Those in which the runs can be that the filter wants; empty: all."""
    if wanted.status is None:
        return ()
    columns = [status for status in listed_as(wanted.status.split(",")) if status is not None]
    return tuple(dict.fromkeys(stage for status in columns for stage in _STAGES.get(status, (status,))))


def _submitted(sorting: Sorting) -> Iterator[Term]:
    if sorting.submitted_after is not None:
        yield "b.created > ?", sorting.submitted_after
    if sorting.submitted_before is not None:
        yield "b.created < ?", sorting.submitted_before


def _of_row(wanted: Filter) -> Iterator[Term]:
    if wanted.status is not None:
        statuses = tuple(listed_as(wanted.status.split(",")))
        yield f"runs.status IN ({', '.join('?' * len(statuses))})", statuses
    for column in ("tag", "yaml", "schedule", "batch"):
        if (value := getattr(wanted, column)) is not None:
            yield f"runs.{column} = ?", value
    if wanted.updated_after is not None:
        yield "runs.updated_at > ?", wanted.updated_after
    if wanted.archived is not None:
        yield f"runs.{ARCHIVED[bool(wanted.archived)]}", ()


def _shown(terms: list[Term]) -> tuple[str, list[object]]:
    """The state, or NULL for a run that does not match: it is looked at, and the page goes on behind it."""
    if not terms:
        return "runs.state", []
    values = [one for _, value in terms for one in _flat(value)]
    return f"CASE WHEN {' AND '.join(text for text, _ in terms)} THEN runs.state END", values


def _column(term: Term) -> str:
    return term[0].split(" ", 1)[0].removeprefix("b.")


def _flat(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)


def _key(sorting: Sorting) -> str:
    return "took" if sorting.order.endswith("duration") else "created"


def _is_descending(sorting: Sorting) -> bool:
    return sorting.order.startswith("-")
