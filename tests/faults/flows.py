"""Flows that write down when each of their tasks was started, by which worker and with which fence."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from pyoco import Flow
from pyoco.core.models import Task

from pyoco_server.clock import elapsed

TASKS = 40
TASK_SEC = 0.1


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


def resolve(flow_name: str) -> Flow:
    if flow_name != "wide":
        raise KeyError(flow_name)
    return wide(flow_name)
