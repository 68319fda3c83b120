"""The two forms of what `pyoco-client` prints: JSON as the gateway sent it for programs, text for people.

Text is for a terminal, JSON for pipes and files, unless `--output` says otherwise. `tables` owns the layout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from pyoco_server.cli.client.tables import (
    Column,
    at,
    id_of,
    print_facts,
    print_table,
    text,
    whole_instant,
    words_of,
)
from pyoco_server.printable import json_text, lines

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import ApprovalPageAnswer, DeadLetterPageAnswer, RunPageAnswer

RUN_FACTS: Mapping[str, str] = {
    "run_id": "Run",
    "flow_name": "Flow",
    "status": "Status",
    "tag": "Tag",
    "worker_id": "Worker",
    "retry_of": "Retry of",
    "waiting_for": "Waits for",
    "error": "Error",
    "submitted_at": "Submitted",
    "start_time": "Started",
    "end_time": "Ended",
}
INSTANTS = ("submitted_at", "start_time", "end_time")


def run_status(run: Mapping[str, object]) -> str:
    """With the reason why a run stands still: it waits for an answer or an instant."""
    return f"{run.get('status')}, waiting" if run.get("waiting_for") else words_of(run.get("status"))


RUNS = (
    Column("RUN", id_of("run_id")),
    Column("FLOW", text("flow_name"), is_cut=True),
    Column("STATUS", run_status),
    Column("TAG", text("tag"), rank=2, is_cut=True),
    Column("CHANGED", at("updated_at")),
    Column("WORKER", text("worker_id"), rank=3, is_cut=True),
    Column("ERROR", text("error"), rank=1, is_cut=True),
)
TASKS = (Column("TASK", text("task"), is_cut=True), Column("STATE", text("state")))
RECORDS = (
    *TASKS,
    Column("TOOK", lambda task: _took(task.get("duration_ms"))),
    Column("OUTPUT", text("output"), rank=2, is_cut=True),
    Column("ERROR", text("error"), rank=1, is_cut=True),
)


class OutputForm(StrEnum):
    JSON = "json"
    TEXT = "text"
    TABLE = "table"  # the same as text


def is_json(output: OutputForm | None) -> bool:
    return not sys.stdout.isatty() if output is None else output is OutputForm.JSON


def show_json(answer: object) -> None:
    sys.stdout.write(json_text(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")


def show_run(run: Mapping[str, object], output: OutputForm | None = None, *, link: str = "") -> None:
    if is_json(output):
        return show_json(run)
    facts = {
        label: whole_instant(run[name]) if name in INSTANTS else words_of(run[name])
        for name, label in RUN_FACTS.items()
        if run.get(name) is not None
    }
    facts |= {"Dashboard": link} if link else {}
    if facts:
        print_facts(facts)
    tasks = run.get("tasks")
    if isinstance(tasks, dict) and tasks:
        if facts:
            sys.stdout.write("\n")
        _print_tasks(tasks, run.get("task_records"))
    return None


def show_outcome(answer: object, sentences: Iterable[str], output: OutputForm | None = None) -> None:
    """What a command has done: JSON for programs, sentences for people."""
    if is_json(output):
        return show_json(answer)
    sys.stdout.write(lines("\n".join(sentences)) + "\n")
    return None


def show_items(
    items: Sequence[Mapping[str, object]], columns: Sequence[Column], output: OutputForm | None, *, empty: str
) -> None:
    """`empty`: what people read instead of a table without rows."""
    if is_json(output):
        return show_json(items)
    if not items:
        return show_outcome(items, [empty], OutputForm.TEXT)
    return print_table(columns, items)


def show_page(
    page: RunPageAnswer | ApprovalPageAnswer | DeadLetterPageAnswer,
    columns: Sequence[Column],
    output: OutputForm | None,
    *,
    empty: str,
    further: str,
) -> None:
    """A page of a list. `further`: the command for the next page, without the cursor."""
    if is_json(output):
        return show_json(page)
    show_items(page["items"], columns, OutputForm.TEXT, empty=empty)
    if page["next_cursor"]:
        sys.stdout.write(f"\nFor the next page: {further} --cursor CURSOR, with\n")
        sys.stdout.write(f"next_cursor: {page['next_cursor']}\n")
    return None


def _print_tasks(tasks: Mapping[str, object], records: object) -> None:
    records = records if isinstance(records, dict) else {}
    rows = [{**records.get(name, {}), "task": name, "state": state} for name, state in tasks.items()]
    print_table(RECORDS if records else TASKS, rows)


def _took(milliseconds: object) -> str:
    return f"{milliseconds / 1000:.3f} s" if isinstance(milliseconds, int | float) else ""
