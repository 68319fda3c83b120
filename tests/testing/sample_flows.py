"""Flows that a test executes twice: with `run_flow`, and on a server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task

from pyoco_server.flows.waits import approval, sleep
from tests.engine.building import flow_of, make_task

calls: Counter[tuple[str, str]] = Counter()  # by run and task


def _greet(name: str) -> str:
    return f"Hello, {name}!"


def _count(greet: str) -> int:
    return len(greet)


def _break(greet: str) -> None:
    raise ValueError(f"cannot use {greet}")


def _fail_twice(ctx: Any) -> str:
    key = (ctx.run_context.run_id, "flaky")
    calls[key] += 1
    if calls[key] < 3:
        raise ConnectionError("not yet")
    return "third time"


def _deploy(greet: str, release: Any) -> list[Any]:
    return [greet, release]


async def _hang() -> None:
    await asyncio.sleep(600)  # waits: is cancelled by its timeout


def _obey(ctx: Any) -> str:
    give_up_at = time.monotonic() + 30
    while not ctx.is_cancelled and time.monotonic() < give_up_at:
        time.sleep(0.001)
    return "stopped"


def _square(greet: str, number: int) -> int:
    return number * number


def _total(ctx: Any) -> int:
    return sum(ctx.results[f"square{number}"] for number in range(4))


def _wait(wrapper: Any, needs: Task) -> Task:
    found: Task = wrapper.task
    found.dependencies.add(needs)
    needs.dependents.add(found)
    return found


# For flow.yaml files of tests.
ask = approval("ask")


def answers_of(ctx: Any) -> list[Any]:
    return [ctx.results["ask"], ctx.params["extra"]]


def resolve(name: str) -> Flow:
    greet = make_task("greet", _greet)
    match name:
        case "success":
            return flow_of(greet, make_task("count", _count, [greet]))
        case "failure":
            broken = make_task("break", _break, [greet])
            return flow_of(greet, broken, make_task("after", lambda: None, [broken]))
        case "isolated":
            broken = make_task("break", _break, [greet], fail_policy="isolate")
            count = make_task("count", _count, [greet])
            return flow_of(greet, broken, make_task("after", lambda: None, [broken]), count)
        case "retry":
            return flow_of(make_task("flaky", _fail_twice, retries=3))
        case "retries used up":
            return flow_of(make_task("flaky", _fail_twice, retries=1))
        case "sleep":
            nap = _wait(sleep(0.2, "nap"), greet)  # waits: the subject of the test
            return flow_of(greet, nap, make_task("count", _count, [nap]))
        case "approval":
            release = _wait(approval("release", prompt={"text": "$node.greet.output"}), greet)
            return flow_of(greet, release, make_task("deploy", _deploy, [release]))
        case "approval in time":
            release = _wait(approval("release", timeout_sec=0.2), greet)
            return flow_of(greet, release, make_task("deploy", _deploy, [release]))
        case "fan-out":
            squares = [
                make_task(f"square{number}", _square, [greet], inputs={"number": number})
                for number in range(4)
            ]
            return flow_of(greet, *squares, make_task("total", _total, squares))
        case "timeout":
            return flow_of(make_task("hang", _hang, timeout_sec=0.2))
        case "cancel":
            obey = make_task("obey", _obey)
            return flow_of(obey, make_task("after", lambda: None, [obey]))
        case _:
            raise KeyError(name)
