"""What a person sees of a run on a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from pyoco_server.cli.client.live_view import TASKS_SHOWN_MAX, draw, watch_live
from pyoco_server.http_client.answers import RunAnswer

NOW = 1_000.0


def a_run(tasks: dict[str, str], records: dict[str, Any] | None = None, **members: Any) -> Any:
    shown = {"run_id": "r1", "flow_name": "measure", "status": "RUNNING", "worker_id": "w"}
    return shown | {"start_time": NOW - 75, "tasks": tasks, "task_records": records or {}} | members


def text_of(run: RunAnswer) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(draw(run, NOW))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_tasks_stand_in_their_order_with_state_and_time() -> None:
    records = {
        "fetch": {"started_at": NOW - 75, "ended_at": NOW - 74.5},
        "count": {"started_at": NOW - 3, "attempt": 2},
    }
    said = text_of(a_run({"fetch": "SUCCEEDED", "count": "RUNNING", "store": "PENDING"}, records))
    lines = [line.rstrip() for line in said.splitlines()]
    assert lines[0] == "RUNNING measure  1 min 15 s  on w  r1"
    assert lines[1].endswith("1/3")
    assert [line.strip("├└─ ") for line in lines[2:]] == [
        "✓ fetch  500 ms",
        "● count  3.0 s  attempt 2",
        "· store",
    ]


def test_iterations_stand_below_their_task() -> None:
    said = text_of(a_run({"step": "RUNNING", "step[0]": "SUCCEEDED", "step[1]": "RUNNING", "end": "PENDING"}))
    lines = said.splitlines()
    assert lines[1].rstrip().endswith("0/2"), "iterations are not counted as tasks"
    assert lines[3].index("step[0]") > lines[2].index("step")
    assert lines[5].index("end") < lines[4].index("step[1]")


def test_of_a_large_flow_the_important_tasks_are_shown() -> None:
    tasks = {f"t{number:03}": "SUCCEEDED" for number in range(200)} | {"t150": "FAILED", "t160": "RUNNING"}
    said = text_of(a_run(tasks, status="FAILED", error="on purpose\nand more"))
    assert "✗ t150" in said
    assert "● t160" in said
    assert f"… {200 - TASKS_SHOWN_MAX} more" in said
    assert "on purpose" in said
    assert "and more" not in said


def test_it_is_drawn_until_nothing_more_comes() -> None:
    console = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=True)
    events: list[Any] = [
        {"event": "heartbeat", "data": {"run_id": "r1"}},
        {"event": "snapshot", "data": {"snapshot": a_run({"a": "RUNNING"})}},
        {"event": "snapshot", "data": {"snapshot": a_run({"a": "SUCCEEDED"}, status="COMPLETED")}},
    ]
    assert watch_live(events, console) == "COMPLETED"
    assert isinstance(console.file, io.StringIO)
    assert "COMPLETED measure" in console.file.getvalue()
