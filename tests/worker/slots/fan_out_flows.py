"""Wide flows that a slot loads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import Flow, task

WIDTH = 60


def resolve(flow_name: str) -> Flow:
    return {"dies": _dies, "naps": _naps, "meets": _meets}[flow_name]()


def _dies() -> Flow:
    """One task in the middle ends the process, the first time."""

    def work(ctx: Any, number: int) -> int:
        marks = Path(ctx.params["marks"])
        if number == WIDTH // 2 and not marks.exists():
            marks.touch()
            os._exit(3)
        return number

    return _fan_out(work)


def _naps() -> Flow:
    def work(ctx: Any, number: int) -> int:
        with Path(ctx.params["marks"]).open("a") as marks:
            marks.write(f"{number}\n")
        time.sleep(0.05)
        return number

    return _fan_out(work)


def _meets() -> Flow:
    """Each task waits for seven others that run beside it."""
    together = threading.Barrier(8)
    return _fan_out(lambda ctx, number: together.wait(20) >= 0, WIDTH // 8 * 8)


def _fan_out(work: Callable[[Any, int], Any], width: int = WIDTH) -> Flow:
    flow = Flow(name="fan-out")
    for number in range(width):
        flow.add_task(_named(work, number).task)
    return flow


def _named(work: Callable[[Any, int], Any], number: int) -> Any:
    made = task(lambda ctx: work(ctx, number))
    made.task.name = f"t{number}"
    return made
