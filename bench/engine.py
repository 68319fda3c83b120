"""The cost of the engine per task, compared with raw calls of the same functions in another thread.

Flows are built and run in this process, without a broker or a gateway. Calling user code in another thread
always costs the raw hand-over; the difference is the engine's own cost. Both are measured as processor time
on one core: two threads that wait for each other need only one, and on several cores other load on the
machine distorts the figures.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import task

from pyoco_server.engine import Engine, OutcomeStatus

SMALL, LARGE = 1_000, 10_000
ROUNDS = 4  # the best of these counts, because the machine is shared


async def engine_overhead() -> dict[str, float]:
    """Microseconds per task, and how they change when the flow is ten times as large."""
    figures: dict[str, float] = {}
    shapes: dict[str, tuple[Callable[[int], Flow], Callable[[int], float]]] = {
        "chain": (chain, one_by_one),
        "fan-out": (fan_out, all_at_once),
        "loop": (loop, one_by_one),
    }
    for name, (build, raw) in shapes.items():
        run = partial(run_sec, build)
        (wall,) = _best_us((partial(run, clock=time.perf_counter), LARGE))
        with _on_one_core():
            small, large, reference = _best_us((run, SMALL), (run, LARGE), (raw, LARGE))
        figures |= {
            f"{name} of {LARGE}, wall µs per task, all cores": wall,
            f"{name}, raw hand-over, µs per task": reference,
            f"{name} of {SMALL}, µs per task": small,
            f"{name} of {LARGE}, µs per task": large,
            f"{name}, engine's own part, µs per task": large - reference,
            f"{name}, ratio of {LARGE} to {SMALL}": large / small,
        }
    return figures


def chain(length: int) -> Flow:
    tasks = [Task(func=_nothing, name="t0")]
    for index in range(1, length):
        tasks.append(_after(index, tasks[-1]))
    return Flow("chain", tasks=set(tasks))


def fan_out(width: int) -> Flow:
    root = Task(func=_nothing, name="root")
    return Flow("fan-out", tasks={root, *(_after(index, root) for index in range(width - 1))})


def loop(iterations: int) -> Flow:
    flow: Flow = Flow("loop") >> task(_nothing)[iterations]
    return flow


def run_sec(
    build: Callable[[int], Flow], count: int, clock: Callable[[], float] = time.process_time
) -> float:
    engine, flow = Engine(), build(count)
    gc.collect()  # garbage of the previous run does not count
    begun = clock()
    outcome = engine.run(flow)
    seconds = clock() - begun
    assert outcome.status is OutcomeStatus.COMPLETED, outcome.error
    return seconds


def one_by_one(count: int) -> float:
    """Each call waits for the one before it, as in a chain."""
    with _Hand() as hand:
        begun = time.process_time()
        for _ in range(count):
            hand.inbox.put(_nothing)
            hand.outbox.get()
        return time.process_time() - begun


def all_at_once(count: int) -> float:
    with _Hand() as hand:
        begun = time.process_time()
        for _ in range(count):
            hand.inbox.put(_nothing)
        for _ in range(count):
            hand.outbox.get()
        return time.process_time() - begun


class _Hand:
    """One thread that calls the functions that it receives."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.outbox: SimpleQueue[object] = SimpleQueue()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> _Hand:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.inbox.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (work := self.inbox.get()) is not None:
            self.outbox.put(work())


@contextmanager
def _on_one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    _keep_threads_on({min(cores)})
    try:
        yield
    finally:
        _keep_threads_on(cores)


def _keep_threads_on(cores: set[int]) -> None:
    """Includes existing threads, because the engine keeps its threads."""
    for thread in threading.enumerate():
        assert thread.native_id is not None
        os.sched_setaffinity(thread.native_id, cores)


def _after(index: int, other: Task) -> Task:
    made = Task(func=_nothing, name=f"t{index}")
    made.dependencies.add(other)
    other.dependents.add(made)
    return made


def _nothing() -> None:
    return None


def _best_us(*measures: tuple[Callable[[int], float], int]) -> list[float]:
    """Microseconds per item. The measures take turns, so that other load affects all of them."""
    rounds = [[seconds_for(count) / count for seconds_for, count in measures] for _ in range(ROUNDS)]
    return [min(figures) * 1e6 for figures in zip(*rounds, strict=True)]
