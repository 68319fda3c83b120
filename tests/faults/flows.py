"""Flows that write down when each of their tasks was started, by which worker and with which fence."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from pyoco import Flow
from pyoco.core.models import Task

from pyoco_server.clock import elapsed

# Two at a time they take twice as long as a lease of these tests.
TASKS = 80
TASK_SEC = 0.1
LONG_SEC = 20.0


class Start(NamedTuple):
    task: str
    fence: int
    at: float


def starts_in(marks: Path) -> list[Start]:
    if not marks.exists():
        return []
    return [Start(**json.loads(line)) for line in marks.read_text().splitlines()]


def wide(name: str) -> Flow:
    """Many tasks beside each other: more of them can be started without anything being committed."""
    flow = Flow(name=name)
    flow.tasks = {Task(func=_marked(f"t{number}"), name=f"t{number}") for number in range(TASKS)}
    return flow


def _marked(task: str) -> Any:
    def work(ctx: Any, marks: str) -> str:
        start = Start(task, ctx.run_context.metadata["fence"], elapsed())
        with Path(marks).open("a") as file:
            file.write(json.dumps(start._asdict()) + "\n")
        time.sleep(TASK_SEC)
        return task

    return work


def long(name: str) -> Flow:
    """One task that heeds nothing: while it is executed, nothing is committed."""
    flow = Flow(name=name)
    flow.tasks = {Task(func=_until_the_end, name="long")}
    return flow


def _until_the_end(marks: str) -> None:
    Path(marks).touch()
    until = time.monotonic() + LONG_SEC
    while time.monotonic() < until and not Path(f"{marks}.end").exists():
        time.sleep(0.05)


def resolve(flow_name: str) -> Flow:
    return {"wide": wide, "long": long}[flow_name](flow_name)
