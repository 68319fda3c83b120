"""Flows for tests of runs that share a slot: what one does must not reach the others."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pyoco import Flow, task


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]()


def _mark(ctx: Any, name: str) -> None:
    with Path(ctx.params["marks"]).open("a") as marks:
        marks.write(f"{name} {ctx.params.get('who', '')} {os.getpid()}\n")


def _held() -> Flow:
    """Its second task fails until a file is there: meanwhile the run waits in the slot."""

    @task
    def first(ctx: Any) -> str:
        _mark(ctx, "first")
        return "kept"

    @task
    def second(ctx: Any, first: str) -> int:
        if not Path(ctx.params["gate"]).exists():
            raise RuntimeError("not yet")
        _mark(ctx, "second")
        return os.getpid()

    second.task.retries = 1_000
    return _flow(first, second)


def _ending(act: Any) -> Flow:
    """Does something to its process, the first time."""

    @task
    def act_once(ctx: Any) -> str:
        seen = any(line.startswith("acted") for line in Path(ctx.params["marks"]).read_text().splitlines())
        if not seen:
            _mark(ctx, "acted")
            act()
        return "second time"

    return _flow(act_once)


def _sleeps() -> Flow:
    """Does not look up."""

    @task
    def sleep(ctx: Any) -> None:
        _mark(ctx, "sleeping")
        gate = Path(ctx.params["gate"])
        while not gate.exists():
            time.sleep(0.02)  # waits: for the test

    return _flow(sleep)


def _prints() -> Flow:
    tasks = []
    for number in range(4):

        @task
        def speak(ctx: Any, number: int = number) -> None:
            who = ctx.params["who"]
            print(f"{who} says {number}")
            thread = threading.Thread(target=lambda: print(f"{who} in a thread {number}"))
            thread.start()
            thread.join()
            print(f"{who} ends {number} without a line end", end="")

        speak.task.name = f"speak_{number}"
        tasks.append(speak)
    return _flow(*tasks)


def _chain() -> Flow:
    tasks = []
    for number in range(4):

        @task
        def step(ctx: Any, number: int = number) -> int:
            _mark(ctx, f"step_{number}")
            return number

        step.task.name = f"step_{number}"
        tasks.append(step)
    return _flow(*tasks)


def _large() -> Flow:
    @task
    def large() -> str:
        return "x" * 300_000

    @task
    def measure(large: str) -> int:
        return len(large)

    return _flow(large, measure)


def _fan() -> Flow:
    """Its tasks run in threads."""
    flow = Flow(name="fan")
    for number in range(8):

        @task
        def part(number: int = number) -> int:
            time.sleep(0.01)  # waits: so that threads are used
            return number

        part.task.name = f"part_{number}"
        flow.add_task(part.task)
    return flow


def _flow(*tasks: Any) -> Flow:
    flow = Flow(name="flow")
    for step in tasks:
        flow = flow >> step
    return flow


def _held_after(act: Callable[[Any], Any]) -> Flow:
    @task
    def before(ctx: Any) -> None:
        act(ctx)

    flow = _held()
    flow.add_task(before.task)
    return flow


def _set_scratch(ctx: Any) -> None:
    ctx.scratch["seen"] = True


def _keep_lock() -> None:
    """Hostile: takes the lock with which the worker takes runs back, and does not return."""
    links = Path("/proc/self/fd").iterdir()
    pages = [fd for fd in links if fd.is_symlink() and "pyoco-slot" in str(fd.readlink())]
    fcntl.flock(os.open(pages[0], os.O_RDWR), fcntl.LOCK_EX)
    threading.Event().wait()


def _private() -> Flow:
    flow: Any = _held()
    flow.may_interleave = False
    return cast(Flow, flow)


FLOWS: dict[str, Callable[[], Flow]] = {
    "private": _private,
    "in_threads": lambda: _held_after(lambda _: time.sleep(0.02)),  # waits: so that threads are used
    "with_process": lambda: _held_after(lambda _: subprocess.run(["true"], check=True)),
    "past_python": lambda: _held_after(lambda _: os.write(1, b"past\n")),
    "with_scratch": lambda: _held_after(_set_scratch),
    "held": _held,
    "sleeps": _sleeps,
    "prints": _prints,
    "chain": _chain,
    "large": _large,
    "fan": _fan,
    "keeps_lock": lambda: _ending(_keep_lock),
    "exits": lambda: _ending(lambda: os._exit(7)),
    "killed": lambda: _ending(lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "segfault": lambda: _ending(lambda: ctypes.string_at(0)),
}
