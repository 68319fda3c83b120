"""How `pyoco-client` shows answers: JSON as the gateway sent it for machines, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pyoco_server.printable import json_text, lines

if TYPE_CHECKING:
    from rich.table import Table

JSONDict = dict[str, Any]

COLOURS = {
    "COMPLETED": "green",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "CANCELLING": "yellow",
    "RUNNING": "cyan",
}
FACTS = (
    "run_id",
    "flow_name",
    "status",
    "tag",
    "worker_id",
    "error",
    "submitted_at",
    "start_time",
    "end_time",
)
INSTANTS = frozenset({"submitted_at", "updated_at", "start_time", "end_time", "started_at", "ended_at"})
INSTANTS |= {
    "last_seen_at",
    "modified",
    "occurred_at",
    "timestamp",
    "next_at",
    "last_at",
    "since",
    "deadline_at",
}
NEVER_FOLDED = INSTANTS | {"run_id", "schedule_id", "status", "state"}
FILE_COLUMNS = 240


class OutputForm(StrEnum):
    JSON = "json"
    TABLE = "table"


def form_or_default(asked: OutputForm | None) -> OutputForm:
    return asked or (OutputForm.TABLE if sys.stdout.isatty() else OutputForm.JSON)


def show_json(answer: Any) -> None:
    sys.stdout.write(json_text(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")


def show_run(run: JSONDict, form: OutputForm) -> None:
    if form is OutputForm.JSON:
        return show_json(run)
    _print(_facts(run))
    if run.get("tasks"):
        _print(_tasks(run))
    return None


def show_runs(runs: list[JSONDict], form: OutputForm) -> None:
    if form is OutputForm.JSON:
        return show_json(runs)
    columns = ("run_id", "flow_name", "tag", "status", "updated_at", "worker_id")
    return _print(_table(columns, runs))


def show_table(items: list[JSONDict], columns: Iterable[str]) -> None:
    _print(_table(columns, items))


def _facts(run: JSONDict) -> Table:
    rows = [{"": name, " ": _cell(name, run.get(name))} for name in FACTS if run.get(name) is not None]
    return _table(("", " "), rows, header=False)


def _tasks(run: JSONDict) -> Table:
    records = run.get("task_records") or {}
    rows = [
        {"task": name, "state": _cell("state", state)} | records.get(name, {}) | {"state": state}
        for name, state in run["tasks"].items()
    ]
    columns = ("task", "state") + (("duration_ms", "output", "error") if records else ())
    return _table(columns, rows)


def _table(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], *, header: bool = True) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

    columns = tuple(columns)
    table = Table(box=SIMPLE, show_header=header, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name in NEVER_FOLDED)
    for row in rows:
        table.add_row(*(_styled(_cell(name, row.get(name))) for name in columns))
    return table


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in INSTANTS and isinstance(value, int | float):
        return datetime.fromtimestamp(value).strftime("%m-%d %H:%M:%S")
    if isinstance(value, float):
        return f"{value:.1f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _styled(text: str) -> Any:
    from rich.text import Text

    return Text(lines(text), style=COLOURS.get(text, ""))


def _print(table: Table) -> None:
    from rich.console import Console

    # Into a file nothing is folded: there is no edge.
    Console(width=None if sys.stdout.isatty() else FILE_COLUMNS).print(table)
