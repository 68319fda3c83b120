"""Flows that a slot loads: they do to their process what flows do in life."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import Flow, task

WIDTH = 60  # of fan-outs


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]()


def _mark(ctx: Any, name: str) -> None:
    """Leave a line where the test looks: which process did what."""
    with Path(ctx.params["marks"]).open("a") as marks:
        marks.write(f"{name} {os.getpid()}\n")


def _pid() -> Flow:
    @task
    def pid(ctx: Any) -> int:
        _mark(ctx, "pid")
        return os.getpid()

    return _flow(pid)


def _parent() -> Flow:
    @task
    def parent() -> int:
        return os.getppid()

    return _flow(parent)


def _surroundings() -> Flow:
    """All that code in a slot can find out about how its process was started."""

    @task
    def look() -> dict[str, Any]:
        fds = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        return {
            "environ": dict(os.environ),
            "proc_environ": Path("/proc/self/environ").read_bytes().decode().split("\0"),
            "command": Path("/proc/self/cmdline").read_bytes().decode().split("\0"),
            "files": [fd for fd in fds if not fd.startswith("/proc/")],
            "child": subprocess.check_output(["env"], text=True),
        }

    return _flow(look)


def _stubborn() -> Flow:
    @task
    def sleep(ctx: Any) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        with Path(ctx.params["marks"]).open("a") as marks:
            marks.write(f"child {child.pid}\n")
        _mark(ctx, "sleeping")
        time.sleep(3600)  # waits: code that never looks up

    return _flow(sleep)


def _overtime() -> Flow:
    @task
    def sleep(ctx: Any) -> None:
        _mark(ctx, "overtime")
        time.sleep(3600)  # waits: code that never looks up

    sleep.task.timeout_sec = 0.1
    return _flow(sleep)


def _busy() -> Flow:
    @task
    def spin(ctx: Any) -> None:
        _mark(ctx, "sleeping")
        while True:
            pass

    return _flow(spin)


def _exits() -> Flow:
    @task
    def first(ctx: Any) -> str:
        _mark(ctx, "first")
        return "kept"

    @task
    def last(ctx: Any, first: str) -> None:
        _mark(ctx, f"last-{first}")
        os._exit(7)

    return _flow(first, last)


def _leaves_child() -> Flow:
    @task
    def start_and_die(ctx: Any) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        with Path(ctx.params["marks"]).open("a") as marks:
            marks.write(f"child {child.pid}\n")
        os._exit(9)

    return _flow(start_and_die)


def _killed() -> Flow:
    @task
    def kill_myself() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    return _flow(kill_myself)


def _once() -> Flow:
    @task
    def crash_the_first_time(ctx: Any) -> str:
        marks = Path(ctx.params["marks"])
        seen = marks.exists()
        _mark(ctx, "tried")
        if not seen:
            os._exit(3)
        return "second time"

    return _flow(crash_the_first_time)


def _waits() -> Flow:
    @task
    def wait(ctx: Any) -> int:
        _mark(ctx, "waiting")
        while not Path(ctx.params["until"]).exists():
            time.sleep(0.01)
        return os.getpid()

    return _flow(wait)


def _draws() -> Flow:
    @task
    def draw() -> float:
        return random.random()

    return _flow(draw)


def _signals_itself() -> Flow:
    @task
    def signal_itself(ctx: Any) -> None:
        os.kill(0 if ctx.params.get("group") else os.getpid(), ctx.params["signal"])
        time.sleep(3600)  # waits: until the signal arrives

    return _flow(signal_itself)


def _kills_parent() -> Flow:
    @task
    def kill_parent() -> int:
        os.kill(os.getppid(), signal.SIGKILL)
        return os.getpid()

    return _flow(kill_parent)


def _forks() -> Flow:
    """A child, which ends, and a daemon, which stays: in a session of its own, with its own output."""

    @task
    def fork(ctx: Any) -> int:
        ended = os.fork()
        if ended == 0:
            os._exit(5)
        code = os.waitstatus_to_exitcode(os.waitpid(ended, 0)[1])
        daemon = os.fork()
        if daemon == 0:
            os.setsid()
            if os.fork() == 0:
                for descriptor in (1, 2):
                    os.dup2(0, descriptor)
                _mark(ctx, "daemon")
                time.sleep(3600)  # waits: until the test ends it
            os._exit(0)
        os.waitpid(daemon, 0)
        return code

    return _flow(fork)


def _leaves_idle_child() -> Flow:
    @task
    def start() -> int:
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]).pid

    return _flow(start)


def _exits_in_python() -> Flow:
    @task
    def exit_in_python() -> None:
        sys.exit(4)

    return _flow(exit_in_python)


def _fan_dies() -> Flow:
    """One task in the middle ends the process, the first time."""

    def work(ctx: Any, number: int) -> int:
        marks = Path(ctx.params["marks"])
        if number == WIDTH // 2 and not marks.exists():
            marks.touch()
            os._exit(3)
        return number

    return _fan_out(work)


def _fan_naps() -> Flow:
    def work(ctx: Any, number: int) -> int:
        with Path(ctx.params["marks"]).open("a") as marks:
            marks.write(f"{number}\n")
        time.sleep(0.05)
        return number

    return _fan_out(work)


def _fan_meets() -> Flow:
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


def _flow(*tasks: Any) -> Flow:
    flow = Flow(name="flow")
    for step in tasks:
        flow = flow >> step
    return flow


FLOWS = {
    "surroundings": _surroundings,
    "pid": _pid,
    "parent": _parent,
    "stubborn": _stubborn,
    "busy": _busy,
    "overtime": _overtime,
    "exits": _exits,
    "killed": _killed,
    "leaves_child": _leaves_child,
    "once": _once,
    "waits": _waits,
    "draws": _draws,
    "signals_itself": _signals_itself,
    "kills_parent": _kills_parent,
    "forks": _forks,
    "leaves_idle_child": _leaves_idle_child,
    "exits_in_python": _exits_in_python,
    "fan_dies": _fan_dies,
    "fan_naps": _fan_naps,
    "fan_meets": _fan_meets,
}
