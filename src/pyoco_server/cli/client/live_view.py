"""The live view of a run on a terminal: its tasks as a tree that is redrawn while they change.

Owns the drawing. The changes come as the events of a watch. Without a terminal, `watch` prints lines.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pyoco_server.cli.client.tables import COLOURS
from pyoco_server.printable import one_line

if TYPE_CHECKING:
    from pyoco_server.cli.client.waiting_hint import WaitingHint
    from pyoco_server.http_client.answers import RunAnswer, RunChangeAnswer, TaskRecordAnswer

TASKS_SHOWN_MAX = 30
BAR_COLUMNS = 30
SIGNS = {"SUCCEEDED": "✓", "FAILED": "✗", "CANCELLED": "–", "RUNNING": "●", "PENDING": "·"}
# The order in which tasks of a large run are chosen.
_FIRST = ("FAILED", "RUNNING", "CANCELLED", "PENDING", "SUCCEEDED")
_ITERATION = re.compile(r"^(.*?)(?:#\d+)?(?:\[\d+\])+$")


def watch_live(
    events: Iterable[RunChangeAnswer], console: Console | None = None, *, hint: WaitingHint | None = None
) -> str:
    """Draw until the events end. Returns the status that was shown last. `hint`: what the run waits for."""
    latest: RunAnswer = {}

    def now() -> RenderableType:  # called at each refresh: durations grow without events
        if not latest:
            return Text("waiting …", style="dim")
        return draw(latest, waits_for=hint.sentence if hint else "")

    with Live(console=console or Console(), get_renderable=now, refresh_per_second=5) as live:
        for event in events:
            snapshot = event["data"].get("snapshot")
            if snapshot:
                latest = snapshot
                live.refresh()
    return str(latest.get("status", ""))


def draw(run: RunAnswer, now: float | None = None, waits_for: str = "") -> RenderableType:
    now = time.time() if now is None else now
    parts: list[RenderableType] = [_head(run, now)]
    if waits_for and not run.get("end_time"):
        parts.append(Text(f"  {waits_for}", style="yellow"))
    if run["tasks"]:
        parts += [_progress(run["tasks"]), _tree(run, now)]
    if run.get("error"):
        parts.append(Text(one_line(f"  {run['error']}".splitlines()[0]), style="red"))
    return Group(*parts)


def _head(run: RunAnswer, now: float) -> Text:
    status = run["status"]
    head = Text()
    head.append(f"{status} ", style=f"bold {COLOURS.get(status, '')}".strip())
    head.append(one_line(run["flow_name"]), style="bold")
    begun = run.get("start_time")
    if begun:
        head.append(f"  {_duration((run.get('end_time') or now) - begun)}")
    if run.get("worker_id"):
        head.append(one_line(f"  on {run['worker_id']}"), style="dim")
    head.append(f"  {run['run_id']}", style="dim")
    return head


def _progress(tasks: dict[str, str]) -> RenderableType:
    planned = {name: state for name, state in tasks.items() if not _ITERATION.match(name)}
    done = sum(state not in ("PENDING", "RUNNING") for state in planned.values())
    row = Table.grid(padding=(0, 1))
    row.add_row(
        Text(" "),
        ProgressBar(total=len(planned), completed=done, width=BAR_COLUMNS),
        f"{done}/{len(planned)}",
    )
    return row


def _tree(run: RunAnswer, now: float) -> Tree:
    tree = Tree("", hide_root=True)
    records = run.get("task_records") or {}
    branches: dict[str, Tree] = {}
    shown, left = _chosen(run["tasks"])
    for name in shown:
        iteration = _ITERATION.match(name)
        place = branches.get(iteration.group(1), tree) if iteration else tree
        branches[name] = place.add(_line(name, run["tasks"][name], records.get(name), now))
    if left:
        tree.add(Text(f"… {left} more", style="dim"))
    return tree


def _chosen(tasks: dict[str, str]) -> tuple[list[str], int]:
    """The tasks to show, in the order of the flow, and the number of tasks left out."""
    if len(tasks) <= TASKS_SHOWN_MAX:
        return list(tasks), 0
    ranked = sorted(tasks, key=lambda name: _FIRST.index(tasks[name]))
    chosen = set(ranked[:TASKS_SHOWN_MAX])
    return [name for name in tasks if name in chosen], len(tasks) - TASKS_SHOWN_MAX


def _line(name: str, state: str, record: TaskRecordAnswer | None, now: float) -> Text:
    line = Text()
    line.append(f"{SIGNS.get(state, '?')} ", style=COLOURS.get(state, "dim"))
    line.append(one_line(name), style="" if state != "PENDING" else "dim")
    if record is None:
        return line
    begun = record.get("started_at")
    if begun and state != "PENDING":
        line.append(f"  {_duration((record.get('ended_at') or now) - begun)}", style="dim")
    if record.get("attempt", 1) > 1:
        line.append(f"  attempt {record['attempt']}", style="dim")
    if record.get("error"):
        line.append(one_line(f"  {str(record['error']).splitlines()[0]}"), style="red")
    return line


def _duration(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
