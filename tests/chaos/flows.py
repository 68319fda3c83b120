"""Flows of the chaos scenarios, as a worker process loads them. Each task leaves a mark when it begins."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyoco import Flow, task

from pyoco_server import approval

MARKS = "TEST_MARKS"  # not PYOCO_…: slots do not get those
STEPS = tuple(f"t{number}" for number in range(1, 13))
STEP_SEC = 0.25
LARGE_CHARS = 200_000


class Mark(NamedTuple):
    """A task began: in which process of a worker (its pid) and when, by the clock of this machine."""

    run_id: str
    task: str
    pid: int
    at: float


def leave_mark(ctx: Any, name: str) -> None:
    """One write of one short line with O_APPEND: lines of several processes do not mix."""
    path = os.environ.get(MARKS)
    if path:
        line = f"{ctx.run_context.run_id} {name} {_worker_pid()} {time.time():.6f}\n".encode()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)
        os.close(handle)


def _worker_pid() -> int:
    """The parent of a slot is the zygote, and its parent is the worker."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def marks(path: Path) -> list[Mark]:
    lines = path.read_text().splitlines() if path.exists() else []
    split = (line.split() for line in lines)
    return [Mark(run_id, name, int(pid), float(at)) for run_id, name, pid, at in split]


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]()


def _named(name: str, func: Callable[..., Any]) -> Any:
    wrapped = task(func)
    wrapped.task.name = name
    return wrapped


def _quick() -> Flow:
    def only(ctx: Any) -> str:
        leave_mark(ctx, "only")
        return "done"

    flow: Flow = Flow(name="quick") >> _named("only", only)
    return flow


def _steps() -> Flow:
    """Long enough that a worker which is cut off in the middle would have more to begin."""
    flow = Flow(name="steps")
    for name in STEPS:
        flow = flow >> _step(name)
    return flow


def _step(name: str) -> Any:
    def step(ctx: Any) -> str:
        leave_mark(ctx, name)
        time.sleep(STEP_SEC)  # waits: a step that can be interrupted in its middle
        return name

    return _named(name, step)


def _large() -> Flow:
    """Results of which no two executions make the same; the next task says which one it was given."""

    def make(ctx: Any) -> str:
        leave_mark(ctx, "make")
        told = f"{os.getpid()} {time.time_ns()} "
        return (told * (LARGE_CHARS // len(told) + 1))[:LARGE_CHARS]

    def rest(ctx: Any) -> None:
        leave_mark(ctx, "rest")
        time.sleep(STEP_SEC)  # waits: the run can be lost between both

    def check(ctx: Any) -> str:
        leave_mark(ctx, "check")
        return hashlib.sha256(ctx.results["make"].encode()).hexdigest()

    flow: Flow = Flow(name="large") >> _named("make", make) >> _named("rest", rest) >> _named("check", check)
    return flow


def _release() -> Flow:
    def build(ctx: Any) -> str:
        leave_mark(ctx, "build")
        return "v1"

    def deploy(ctx: Any) -> Any:
        leave_mark(ctx, "deploy")
        return ctx.results["release"]

    return Flow(name="release") >> _named("build", build) >> approval("release") >> _named("deploy", deploy)  # type: ignore[no-any-return]


def _recheck() -> Flow:
    def evaluate(ctx: Any, strategies: list[str]) -> dict[str, Any]:
        leave_mark(ctx, "evaluate")
        return {name: {"metrics": {"winrate": 0.52, "sharpe": 0.8, "max_dd": 0.1}} for name in strategies}

    flow: Flow = Flow(name="pdca_recheck") >> _named("evaluate", evaluate)
    return flow


FLOWS: dict[str, Callable[[], Flow]] = {
    "quick": _quick,
    "steps": _steps,
    "large": _large,
    "release": _release,
    "pdca_recheck": _recheck,
}
# What succeeds, once each, in a run that completes.
TASKS: dict[str, tuple[str, ...]] = {
    "quick": ("only",),
    "steps": STEPS,
    "large": ("make", "rest", "check"),
    "release": ("build", "release", "deploy"),
    "pdca_recheck": ("evaluate",),
}
