"""Flows that take their whole worker with them, beside one that does no harm. Loaded by a worker process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyoco import Flow, task


def resolve(flow_name: str) -> Flow:
    return {"killer": _killer, "leaves_child": _leaves_child, "harmless": _harmless}[flow_name]()


def _killer() -> Flow:
    @task
    def before() -> str:
        return "kept"

    @task
    def kill(ctx: Any, before: str) -> None:
        time.sleep(ctx.params.get("after_sec", 0.0))
        os.kill(_parent_of(os.getppid()), signal.SIGKILL)  # the parent of a slot is the zygote
        time.sleep(3600)  # waits: until it dies with the worker

    flow: Flow = Flow(name="killer") >> before >> kill
    return flow


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _harmless() -> Flow:
    @task
    def first(ctx: Any) -> int:
        time.sleep(ctx.params.get("takes_sec", 0.0))
        return 1

    @task
    def second(first: int) -> int:
        return first + 1

    flow: Flow = Flow(name="harmless") >> first >> second
    return flow


def _leaves_child() -> Flow:
    @task
    def start_child(ctx: Any) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        beside = Path(ctx.params["pids"] + "~")
        beside.write_text(f"{os.getpid()} {child.pid}")
        beside.rename(ctx.params["pids"])
        time.sleep(3600)  # waits: code that never looks up

    flow: Flow = Flow(name="leaves_child") >> start_child
    return flow
