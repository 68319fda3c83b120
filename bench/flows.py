"""Flows whose tasks do nothing, to measure everything around them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pyoco import Flow, task


def resolve(flow_name: str) -> Flow:
    kind, _, count = flow_name.partition("_")
    if flow_name == "until_cancelled":
        return _until_cancelled()
    if flow_name == "stubborn":
        return _stubborn()
    return KINDS[kind](int(count or 1))


def _noop(_count: int) -> Flow:
    @task
    def nothing() -> None:
        return None

    flow: Flow = Flow(name="noop") >> nothing
    return flow


def _print(_count: int) -> Flow:
    @task
    def speak(lines: int) -> None:
        for number in range(lines):
            print("line", number)

    flow: Flow = Flow(name="print") >> speak
    return flow


def _clock(_count: int) -> Flow:
    @task
    def tell(ticks: int) -> None:
        time.sleep(1.0)  # until all followers are connected
        for _ in range(ticks):
            print("at", time.time())
            time.sleep(0.05)

    flow: Flow = Flow(name="clock") >> tell
    return flow


def _until_cancelled() -> Flow:
    @task
    def wait(ctx: Any) -> None:
        while not ctx.is_cancelled:
            time.sleep(0.0002)
        Path(os.environ["BENCH_SEEN"]).write_text(str(time.time()))

    flow: Flow = Flow(name="wait") >> wait
    return flow


def _stubborn() -> Flow:
    """Ignores a cancel, so that its slot must be killed."""

    @task
    def go_on() -> None:
        for _ in range(60):
            time.sleep(1.0)

    flow: Flow = Flow(name="stubborn") >> go_on
    return flow


def _nap(seconds: int) -> Flow:
    """Records its start and its end in a file that survives a kill of the worker."""
    from bench.peers.events import END, START, record  # a worker that naps has the checkout on its path

    @task
    def nap(number: int) -> None:
        record(START, number)
        time.sleep(seconds)
        record(END, number)

    flow: Flow = Flow(name="nap") >> nap
    return flow


def _chain(count: int) -> Flow:
    flow = Flow(name="chain")
    for number in range(count):
        step = task(lambda: None)
        step.task.name = f"step_{number}"
        flow = flow >> step
    return flow


def _fan(count: int) -> Flow:
    flow = Flow(name="fan")
    for number in range(count):
        step = task(lambda: None)
        step.task.name = f"step_{number}"
        flow.add_task(step.task)
    return flow


KINDS = {"noop": _noop, "chain": _chain, "fan": _fan, "print": _print, "clock": _clock, "nap": _nap}
