"""Flows that wait, for slots to load."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from pyoco import Flow, task

from pyoco_server import approval


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]()


def _mark(ctx: Any, name: str) -> None:
    with Path(ctx.params["marks"]).open("a") as marks:
        marks.write(f"{name}\n")


def _marked(ctx: Any, name: str) -> bool:
    marks = Path(ctx.params["marks"])
    return marks.exists() and name in marks.read_text().splitlines()


def release() -> Flow:
    @task
    def build(ctx: Any) -> str:
        _mark(ctx, "build")
        return "v1"

    @task
    def deploy(ctx: Any, build: str, release: Any) -> list[Any]:
        _mark(ctx, "deploy")
        return [build, release]

    asked = approval("release", prompt={"version": "$node.build.output", "price": "$100"})
    flow: Flow = Flow("release") >> build >> asked >> deploy
    return flow


def quick() -> Flow:
    @task
    def say() -> str:
        return "done"

    flow: Flow = Flow("quick") >> say
    return flow


def beside() -> Flow:
    """`busy` goes on until `deploy`, behind the wait, has run."""

    @task
    def busy(ctx: Any) -> str:
        _mark(ctx, "busy")
        while not _marked(ctx, "deploy") and not ctx.is_cancelled:
            time.sleep(0.01)
        return "relieved"

    @task
    def deploy(ctx: Any, release: Any) -> Any:
        _mark(ctx, "deploy")
        return release

    release = approval("release")
    release >> deploy
    flow = Flow("beside")
    for one in (busy, release, deploy):
        flow.add_task(one.task)
    return flow


def crashing() -> Flow:
    """`fragile` takes its process along the first time, while the wait beside it is open."""

    @task
    def fragile(ctx: Any) -> str:
        if not _marked(ctx, "crashed"):
            while not _marked(ctx, "crash now"):
                time.sleep(0.01)
            _mark(ctx, "crashed")
            os.kill(os.getpid(), signal.SIGKILL)
        return "survived"

    flow = Flow("crashing")
    for one in (fragile, approval("release")):
        flow.add_task(one.task)
    return flow


FLOWS = {"release": release, "quick": quick, "beside": beside, "crashing": crashing}
