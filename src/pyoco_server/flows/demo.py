"""The flows that `pyoco-server up` serves on tag `demo`. Each is short and shows one feature.

Every call builds a new flow, because pyoco keeps edges in the task objects: shared tasks would be rewired.
"""

import time
from collections.abc import Callable

from pyoco import Flow, task
from pyoco.core.context import Context

from pyoco_server.flows.waits import approval

DEMO_FLOWS = {
    "hello": "One task that greets; params: name",
    "parallel": "Four tasks side by side, then one that adds up their results",
    "ticker": "Prints a line a second and can be cancelled at any moment; params: seconds",
    "fails": "The second task raises, to show what a failed run looks like",
    "release": "Builds, waits for your approval without holding a worker, then deploys; params: version",
}

PART_SEC = 0.1  # how long each of the parallel parts sleeps
TICK_SEC = 1.0
CANCEL_CHECK_SEC = 0.1  # the longest delay of a cancel in the ticker


def resolver(flow_name: str) -> Flow:
    """The demo flow with this name. Raises KeyError for other names."""
    builders: dict[str, Callable[[], Flow]] = {
        "hello": hello,
        "parallel": parallel,
        "ticker": ticker,
        "fails": fails,
        "release": release,
    }
    if flow_name not in builders:
        raise KeyError(f"No demo flow '{flow_name}'; there are: {', '.join(builders)}")
    return builders[flow_name]()


# The worker publishes this list. Any resolver may have it.
resolver.flows = DEMO_FLOWS  # type: ignore[attr-defined]


def hello() -> Flow:
    @task
    def greet(name: str = "world") -> str:
        greeting = f"Hello, {name}!"
        print(greeting)
        return greeting

    flow: Flow = Flow("hello") >> greet
    return flow


def parallel() -> Flow:
    @task
    def one() -> int:
        return _part(1)

    @task
    def two() -> int:
        return _part(2)

    @task
    def three() -> int:
        return _part(3)

    @task
    def four() -> int:
        return _part(4)

    @task
    def total(one: int, two: int, three: int, four: int) -> int:
        print(f"{one} + {two} + {three} + {four}")
        return one + two + three + four

    flow: Flow = Flow("parallel") >> [one, two, three, four] >> total
    return flow


def ticker() -> Flow:
    @task
    def tick(ctx: Context, seconds: int = 60) -> int:
        for second in range(1, seconds + 1):
            print(f"tick {second} of {seconds}", flush=True)
            if not _wait(ctx, TICK_SEC):
                print("cancelled, stopping here", flush=True)
                return second
        return seconds

    flow: Flow = Flow("ticker") >> tick
    return flow


def fails() -> Flow:
    @task
    def prepare() -> str:
        print("this part works")
        return "prepared"

    @task
    def explode(prepare: str) -> None:
        raise ValueError(f"This demo fails on purpose, after the first task returned '{prepare}'")

    flow: Flow = Flow("fails") >> prepare >> explode
    return flow


def release() -> Flow:
    @task
    def build(version: str = "1.0") -> str:
        print(f"building {version}")
        return version

    @task
    def deploy(build: str, approve: object) -> str:
        print(f"deploying {build}, approved with {approve}")
        return f"{build} is out"

    approve = approval("approve", prompt={"question": "Deploy it?", "version": "$node.build.output"})
    flow: Flow = Flow("release") >> build >> approve >> deploy
    return flow


def _part(number: int) -> int:
    time.sleep(PART_SEC)
    print(f"part {number} is done")
    return number


def _wait(ctx: Context, wait_sec: float) -> bool:
    """Returns False as soon as the run is cancelled."""
    until = time.monotonic() + wait_sec
    while not ctx.is_cancelled:
        left_sec = until - time.monotonic()
        if left_sec <= 0:
            return True
        time.sleep(min(left_sec, CANCEL_CHECK_SEC))
    return False
