"""Flows that the browser watches: a diamond, much output, one that will not stop, some to try again."""

from __future__ import annotations

import datetime
import enum
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pyoco import Flow, task
from pyoco.core.context import Context
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server import approval

LINES = 50_000


def diamond() -> Flow:
    @task
    def fetch(gate: str = "") -> str:
        print("\x1b[32mfetched\x1b[0m and \x1b[1mbold\x1b[0m")
        return "data"

    @task
    def left(fetch: str, gate: str = "") -> str:
        _wait_for(gate)
        return f"{fetch}-left"

    @task
    def right(fetch: str) -> str:
        return f"{fetch}-right"

    @task
    def join(left: str, right: str) -> str:
        print(f"joined {left} and {right}")
        return left + right

    flow: Flow = Flow("diamond") >> fetch >> [left, right] >> join
    return flow


def chatty() -> Flow:
    @task
    def talk(ctx: Context, lines: int = LINES, gate: str = "") -> int:
        for number in range(1, lines + 1):
            print(f"line {number} of {lines}: \x1b[36mthe quick brown fox\x1b[0m jumps over the lazy dog")
        _wait_for(gate)
        print("the very last line")
        return lines

    flow: Flow = Flow("chatty") >> talk
    return flow


def stubborn() -> Flow:
    @task
    def ignore_everything() -> None:
        print("I do not listen", flush=True)
        while True:
            time.sleep(0.05)

    flow: Flow = Flow("stubborn") >> ignore_everything
    return flow


def release() -> Flow:
    @task
    def build(version: str = "1.0") -> str:
        return f"shop-{version}.tar.gz"

    @task
    def deploy(build: str, release: object) -> str:
        print(f"deploying {build}")
        return build

    ask = approval("release", prompt={"question": "Deploy it?", "file": "$node.build.output"})
    flow: Flow = Flow("release") >> build >> ask >> deploy
    return flow


class Market(enum.Enum):
    TOKYO = "tokyo"
    PARIS = "paris"


class Rollout(pydantic.BaseModel):
    stage: Market = pydantic.Field(description="Where it goes first")
    percent: int = pydantic.Field(default=10, ge=1, le=100)
    notes: list[str] = []


def rollout() -> Flow:
    @task
    def deploy(decide: object) -> object:
        return decide

    ask = approval("decide", prompt={"question": "How is it rolled out?"}, answer=Rollout)
    flow: Flow = Flow("rollout") >> ask >> deploy
    return flow


def pdca_recheck() -> Flow:
    @task
    def evaluate(strategies: list[str]) -> dict[str, object]:
        metrics = {"winrate": 0.6, "sharpe": 1.1, "max_dd": 0.05}
        return {strategy: {"metrics": metrics} for strategy in strategies}

    flow: Flow = Flow("pdca_recheck") >> evaluate
    return flow


def mended() -> Flow:
    @task
    def prepare() -> str:
        return "prepared"

    @task
    def needs_file(prepare: str, file: str = "") -> str:
        if not Path(file).exists():
            raise FileNotFoundError(f"there is no {Path(file).name} yet")
        return f"{prepare} and done"

    flow: Flow = Flow("mended") >> prepare >> needs_file
    return flow


def counted() -> Flow:
    """Two branches and a join; each task says in a file that it was executed."""

    @task
    def fetch(seen: str, word: str = "one") -> str:
        return _noted(seen, "fetch", word)

    @task
    def left(seen: str, fetch: str, word: str = "one") -> str:
        return _noted(seen, "left", f"{fetch} {word}")

    @task
    def right(seen: str, fetch: str) -> str:
        return _noted(seen, "right", fetch)

    @task
    def join(seen: str, left: str, right: str) -> str:
        return _noted(seen, "join", f"{left}, {right}")

    flow: Flow = Flow("counted") >> fetch >> [left, right] >> join
    return flow


class Order(pydantic.BaseModel):
    """What a customer has ordered."""

    pieces: int = pydantic.Field(ge=1, le=99, description="How many pieces")
    due_on: datetime.date | None = None
    market: Market = Market.PARIS


def typed() -> Flow:
    @task
    def accept(
        order: Order,
        day: datetime.date,
        size: Literal["small", "large"] = "small",
        ratio: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.5,
        labels: list[str] = ["new"],  # noqa: B006
        note: str | None = None,
        strict: bool = True,
        at: datetime.datetime | None = None,
        gift: Order | None = None,
    ) -> dict[str, object]:
        """Returns what it was given: JSON, not the types that are announced."""
        return {"order": order, "day": day, "size": size, "ratio": ratio, "labels": labels, "note": note}

    flow: Flow = Flow("typed") >> accept
    return flow


def described() -> Flow:
    @task
    def read(day: str, pages: int = 3) -> int:
        return pages

    flow: Flow = Flow("described") >> read
    return flow


def levels() -> Flow:
    """Lines of all levels, JSON, one long line; then it fails if it is told to."""

    @task
    def prepare() -> str:
        print("INFO preparing")
        return "ready"

    @task
    def report(prepare: str, fail: bool = False, size: int = 3) -> dict[str, int]:
        print("WARNING the disk is nearly full")
        print("ERROR one row was refused")
        print('INFO summary {"rows": 42, "refused": {"late": 1}}')
        print("a long line: " + "0123456789 " * 40 + "its end")
        if fail:
            raise RuntimeError("the report has no rows")
        return {"rows": size}

    @task
    def publish(report: dict[str, int]) -> dict[str, int]:
        return report

    flow: Flow = Flow("levels") >> prepare >> report >> publish
    return flow


def wide() -> Flow:
    """Twelve tasks side by side, then one that needs them all."""

    def part(number: int) -> TaskWrapper:
        return TaskWrapper(Task(func=lambda: number, name=f"part_{number:02}"))

    @task
    def total(part_00: int) -> int:
        return part_00

    flow: Flow = Flow("wide") >> [part(number) for number in range(12)] >> total
    return flow


def heedful() -> Flow:
    """Returns as soon as it sees a cancel."""

    @task
    def tick(ctx: Context) -> str:
        print("ticking", flush=True)
        while not ctx.is_cancelled:
            time.sleep(0.02)
        return "stopped"

    flow: Flow = Flow("heedful") >> tick
    return flow


FLOWS: dict[str, Callable[[], Flow]] = {
    "levels": levels,
    "wide": wide,
    "heedful": heedful,
    "described": described,
    "typed": typed,
    "diamond": diamond,
    "chatty": chatty,
    "stubborn": stubborn,
    "mended": mended,
    "counted": counted,
    "release": release,
    "rollout": rollout,
    "pdca_recheck": pdca_recheck,
}


def resolve(name: str) -> Flow:
    return FLOWS[name]()


resolve.flows = {  # type: ignore[attr-defined]
    "described": "Says what it wants to be given",
    "typed": "Takes a model, a date, a choice and a list",
    "diamond": "Fetch, two beside each other, and a join",
    "chatty": "Prints 50 000 lines",
    "stubborn": "Ignores every request to stop",
    "mended": "Fails until a file is there",
    "release": "Asks before it deploys",
    "counted": "Two branches that count what is executed",
    "levels": "Prints lines of all levels",
}


def _wait_for(gate: str) -> None:
    """The test makes the file when it has seen enough."""
    while gate and not Path(gate).exists():
        time.sleep(0.02)


def _noted(seen: str, task: str, result: str) -> str:
    """Short appends of one file do not mix, whichever process writes them."""
    with Path(seen).open("a") as file:
        file.write(f"{task}\n")
    return result
