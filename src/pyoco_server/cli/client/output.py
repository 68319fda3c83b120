"""How `pyoco-client` shows answers: JSON as the gateway sent it for programs, tables for people."""

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
    *("run_id", "flow_name", "status", "tag", "worker_id", "error"),
    *("submitted_at", "start_time", "end_time"),
)
RUNS = ("run_id", "flow_name", "tag", "status", "updated_at", "worker_id")
INSTANTS = frozenset(
    {
        *("submitted_at", "updated_at", "start_time", "end_time", "started_at", "ended_at", "last_seen_at"),
        *("modified", "occurred_at", "timestamp", "next_at", "last_at", "since", "deadline_at"),
    }
)
NEVER_FOLDED = INSTANTS | {"run_id", "schedule_id", "status", "state"}
FILE_COLUMNS = 240


class OutputForm(StrEnum):
    JSON = "json"
    TABLE = "table"


def show_json(answer: object) -> None:
    sys.stdout.write(json_text(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")


def show_run(run: JSONDict, output: OutputForm | None = None) -> None:
    if _is_json(output):
        return show_json(run)
    _print(_facts(run))
    if run.get("tasks"):
        _print(_tasks(run))
    return None


def show_outcome(answer: object, sentences: Iterable[str], output: OutputForm | None = None) -> None:
    """What a command has done: JSON for programs, sentences for people."""
    if _is_json(output):
        return show_json(answer)
    sys.stdout.write(lines("\n".join(sentences)) + "\n")
    return None


def show_items(
    items: list[JSONDict], columns: Iterable[str], output: OutputForm | None, *, empty: str = ""
) -> None:
    """`empty`: what people read instead of a table without rows."""
    if _is_json(output):
        return show_json(items)
    if empty and not items:
        return show_outcome(items, [empty], OutputForm.TABLE)
    _print(_table(columns, items))
    return None


def show_page(page: JSONDict, columns: Iterable[str], output: OutputForm | None) -> None:
    """A page of a list; as a table with the cursor of the next page below it."""
    if _is_json(output):
        return show_json(page)
    _print(_table(columns, page["items"]))
    if page["next_cursor"]:
        sys.stdout.write(f"next_cursor: {page['next_cursor']}\n")
    return None


def _is_json(output: OutputForm | None) -> bool:
    return not sys.stdout.isatty() if output is None else output is OutputForm.JSON


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

    # In a file no column is folded: a file has no edge.
    Console(width=None if sys.stdout.isatty() else FILE_COLUMNS).print(table)
