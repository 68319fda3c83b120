"""Flows that print in every way there is."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pyoco import Flow, task


def resolve(flow_name: str) -> Flow:
    made: Flow = FLOWS[flow_name]()
    return made


def _every_way() -> Any:
    @task
    def speak() -> None:
        print("printed")
        print("in two", end=" ")
        print("parts")
        print("to stderr", file=sys.stderr)
        logging.getLogger("my.code").info("logged %s", "well")
        sys.stdout.buffer.write("bytes ü\n".encode())
        print("two\nlines")
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        thread.join()
        with ThreadPoolExecutor() as pool:
            pool.submit(print, "from a pool").result()
        subprocess.run([sys.executable, "-c", "print('from a process')"], check=True)
        subprocess.run(["sh", "-c", "printf 'no end' >&2"], check=True)
        os.system("echo from the shell")
        os.write(1, b"past python\n")
        child = get_context("fork").Process(target=print, args=("from a fork",))
        child.start()
        child.join()
        print("progress 1%\rprogress 100%")
        print("not ended", end="")

    return Flow(name="f") >> speak


def _both_at_once() -> Any:
    """Two tasks print at the same time, themselves and through processes."""
    meet = threading.Barrier(2)

    def speaker(name: str) -> Any:
        def speak() -> None:
            meet.wait()
            for number in range(50):
                print(f"{name} {number}")
            subprocess.run(["sh", "-c", f"for i in 1 2 3; do echo {name} process $i; done"], check=True)

        speak.__name__ = name
        return task(speak)

    return Flow(name="f") >> (speaker("left") & speaker("right"))


def _coroutine() -> Any:
    @task
    async def speak() -> None:
        async def one(name: str) -> None:
            await asyncio.sleep(0)
            print("awaited", name)

        await asyncio.gather(one("a"), one("b"))

    return Flow(name="f") >> speak


def _many() -> Any:
    @task
    def speak(ctx: Any) -> None:
        for number in range(ctx.params["count"]):
            print("line", number)

    return Flow(name="f") >> speak


def _closes() -> Any:
    @task
    def close() -> None:
        print("before")
        sys.stdout.close()
        print("after close")
        os.close(1)
        sys.stdout = None

    @task
    def speak() -> None:
        if sys.stdout is None:
            sys.stderr.write("still without\n")
        os.system("echo shell is heard >&2")

    return Flow(name="f") >> close >> speak


def _last_words() -> Any:
    @task
    def die(ctx: Any) -> None:
        is_first = not Path(ctx.params["marks"]).exists()
        Path(ctx.params["marks"]).touch()
        print("last words" if is_first else "second life")
        os.write(2, b"from below\n" if is_first else b"alive\n")
        if is_first:
            os._exit(5)

    return Flow(name="f") >> die


def _long_line() -> Any:
    @task
    def speak() -> None:
        print("x" * 20_000)
        print("y" * 5_000, end="")
        print("y" * 5_000)
        print("\ud800 lone surrogate")

    return Flow(name="f") >> speak


def _who() -> Any:
    @task
    def who(ctx: Any) -> str:
        for _ in range(20):
            print("I am", ctx.params["who"])
            time.sleep(0.001)
        subprocess.run(["echo", "process of", ctx.params["who"]], check=True)
        return str(ctx.params["who"])

    return Flow(name="f") >> who


def _fails() -> Any:
    @task
    def fail() -> None:
        print("about to fail")
        raise ValueError("the reason\nand more")

    fail.task.retries = 1
    return Flow(name="f") >> fail


def _leaves() -> Any:
    """A process that goes on after its run, and prints when the next one is there."""

    @task
    def leave(ctx: Any) -> None:
        marks = ctx.params["marks"]
        loop = f"while [ ! -e {marks}.next ]; do sleep 0.02; done; echo from before; touch {marks}.said"
        os.system(f"({loop}) &")
        print("left")

    return Flow(name="f") >> leave


def _comes_next() -> Any:
    @task
    def speak(ctx: Any) -> None:
        Path(ctx.params["marks"] + ".next").touch()
        until = time.monotonic() + 1.0
        while not Path(ctx.params["marks"] + ".said").exists() and time.monotonic() < until:
            time.sleep(0.02)
        os.system("echo from the shell")
        print("said")

    return Flow(name="f") >> speak


FLOWS: dict[str, Any] = {
    "leaves": _leaves,
    "comes_next": _comes_next,
    "every_way": _every_way,
    "both_at_once": _both_at_once,
    "coroutine": _coroutine,
    "many": _many,
    "closes": _closes,
    "last_words": _last_words,
    "long_line": _long_line,
    "who": _who,
    "fails": _fails,
}
