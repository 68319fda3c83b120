"""Flows of these tests, as a worker process loads them. Each execution of a task leaves a line in a file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import Flow, task

from pyoco_server import approval
from pyoco_server.flows import waits

FOOTPRINTS = "TEST_FOOTPRINTS"  # not PYOCO_…: slots do not get those


def leave_footprint(ctx: Any, name: str) -> None:
    """One write of one short line with O_APPEND: lines of several processes do not mix."""
    path = os.environ.get(FOOTPRINTS)
    if path:
        line = f"{ctx.run_context.run_id} {name}\n".encode()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)
        os.close(handle)


def footprints(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]()


def _quick() -> Flow:
    @task
    def only(ctx: Any, millis: float = 0.0) -> str:
        leave_footprint(ctx, "only")
        time.sleep(millis / 1000)
        return "done"

    flow: Flow = Flow(name="quick") >> only
    return flow


def _steps() -> Flow:
    @task
    def first(ctx: Any) -> int:
        leave_footprint(ctx, "first")
        return 1

    @task
    def second(ctx: Any, first: int) -> int:
        leave_footprint(ctx, "second")
        return first + 1

    flow: Flow = Flow(name="steps") >> first >> second
    return flow


def _five() -> Flow:
    flow = Flow(name="five")
    for name in ("one", "two", "three", "four", "five"):
        flow = flow >> _step(name)
    return flow


def _step(name: str) -> Any:
    def step(ctx: Any) -> str:
        leave_footprint(ctx, name)
        sys.stdout.write(f"doing {name}\n")
        time.sleep(0.3)  # waits: a step that can be interrupted in its middle
        return name

    wrapped = task(step)
    wrapped.task.name = name
    return wrapped


def _around(wait: Any) -> Flow:
    """build >> the wait >> deploy"""

    @task
    def build(ctx: Any) -> str:
        leave_footprint(ctx, "build")
        return "v1"

    @task
    def deploy(ctx: Any) -> dict[str, Any]:
        leave_footprint(ctx, "deploy")
        return dict(ctx.results)

    flow: Flow = Flow(name="around") >> build >> wait >> deploy
    return flow


FLOWS: dict[str, Callable[[], Flow]] = {
    "quick": _quick,
    "steps": _steps,
    "five": _five,
    "release": lambda: _around(approval("release", prompt={"version": "$node.build.output"})),
    "nap": lambda: _around(waits.sleep(1.5, "nap")),
    "expires": lambda: _around(approval("release", timeout_sec=0.5)),
    "goes_on": lambda: _around(approval("release", timeout_sec=0.5, on_timeout="succeed")),
}
