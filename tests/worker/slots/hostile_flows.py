"""Flows that are hard to bear: large, odd and broken things that tasks return and raise."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyoco import Flow, task


def resolve(flow_name: str) -> Flow:
    flow: Flow = FLOWS[flow_name]()
    return flow


def _mark(ctx: Any, name: str) -> None:
    with Path(ctx.params["marks"]).open("a") as marks:
        marks.write(f"{name}\n")


def _large() -> Any:
    @task
    def large(ctx: Any) -> dict[str, Any]:
        _mark(ctx, "large")
        return {"rows": [(number, "x" * 90) for number in range(20_000)]}

    @task
    def measure(ctx: Any, large: dict[str, Any]) -> tuple[int, str]:
        _mark(ctx, "measure")
        if Path(ctx.params["marks"]).read_text().count("measure") == 1 and ctx.params.get("dies"):
            import os

            os._exit(9)
        return len(large["rows"]), type(large["rows"][0]).__name__

    return Flow(name="f") >> large >> measure


def _unserialisable() -> Any:
    @task
    def handle(ctx: Any) -> object:
        _mark(ctx, "handle")
        return Path(ctx.params["marks"]).open()

    @task
    def read(ctx: Any, handle: Any) -> str:
        if Path(ctx.params["marks"]).read_text().count("handle") == 1:
            import os

            os._exit(9)
        return str(handle.read())

    return Flow(name="f") >> handle >> read


def _huge_exception() -> Any:
    @task
    def fail() -> None:
        raise ValueError("much " * 1_000_000)

    return Flow(name="f") >> fail


def _recursion() -> Any:
    @task
    def deep() -> int:
        def again(n: int) -> int:
            return again(n + 1) + 1

        return again(0)

    return Flow(name="f") >> deep


def _slow() -> Any:
    @task
    def slow() -> None:
        time.sleep(3600)  # waits: code that never looks up

    return Flow(name="f") >> slow


def _limited() -> Any:
    flow = _slow()
    flow.timeout_sec = 0.2
    return flow


FLOWS: dict[str, Any] = {
    "large": _large,
    "unserialisable": _unserialisable,
    "huge_exception": _huge_exception,
    "recursion": _recursion,
    "slow": _slow,
    "limited": _limited,
}
