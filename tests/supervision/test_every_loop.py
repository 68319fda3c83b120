"""Every loop of the product, in the hands of its real owner, survives a defect of its body.

The rows below are compared with the source: a loop that is added without a row fails this test.
"""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker import EmbeddedBroker
from pyoco_server.cli.server.up_plan import WorkerPlan
from pyoco_server.cli.server.worker_process import WorkerProcess
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.logs.cursors import LogPosition
from pyoco_server.operations.logs.follower import LogFollower
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.supervision import Loop, failures_by_loop
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.flows.reload import Reload
from pyoco_server.worker.slots.pool import Slots
from tests.conftest import NatsServer, config_for, free_port, until
from tests.issuer import write_jwks
from tests.tidy.repository import PACKAGE, dotted, parsed, python_files
from tests.worker.slots.slot_stage import SPEC
from tests.worker.stage import Flows, submitted


class Injection:
    """The body of each loop that is made raises once, the first time it is executed."""

    def __init__(self) -> None:
        self.loops: list[Loop] = []
        self._executed: Counter[int] = Counter()
        self._failed_before = failures_by_loop()

    def into(self, loop: Loop, body: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        self.loops.append(loop)

        async def fail_first() -> None:
            self._executed[id(loop)] += 1
            if self._executed[id(loop)] == 1:
                raise RuntimeError("a defect")
            await body()

        return fail_first

    def named(self, pattern: str) -> list[Loop]:
        return [loop for loop in self.loops if fnmatch(loop.name, pattern)]

    def was_executed_again(self, loop: Loop) -> bool:
        loop.wake()  # not all have an interval, and some a long one
        return self._executed[id(loop)] >= 2

    def failures(self, name: str) -> int:
        return failures_by_loop().get(name, 0) - self._failed_before.get(name, 0)


@pytest.fixture
def injection(monkeypatch: pytest.MonkeyPatch) -> Injection:
    injection, init = Injection(), Loop.__init__

    def init_with_defect(loop: Loop, name: str, body: Callable[[], Awaitable[None]], **settings: Any) -> None:
        init(loop, name, injection.into(loop, body), **settings)

    monkeypatch.setattr(Loop, "__init__", init_with_defect)
    return injection


@dataclass(frozen=True, slots=True)
class Stage:
    server: NatsServer
    folder: Path

    def config(self, **changes: Any) -> NatsBackendConfig:
        return config_for(self.server, **changes)


@asynccontextmanager
async def gateway(stage: Stage) -> AsyncIterator[Gateway]:
    keys = write_jwks(stage.folder / "jwks.json", "one")
    served = Gateway(stage.config(jwt_jwks=str(keys)), make_history=EventHistory)
    await served.start()
    try:
        await until(lambda: served._services.all_started)
        yield served
    finally:
        await served.stop()


@asynccontextmanager
async def readers(stage: Stage) -> AsyncIterator[None]:
    """Who follows a run, its history, its log and the workers."""
    async with gateway(stage) as served, AsyncExitStack() as held:
        run_id = await submitted(served.store)
        view = await served.run_views.subscribe(run_id)
        held.callback(served.run_views.unsubscribe, run_id, view)
        history = await served.histories.follow(run_id, _ring)
        held.callback(served.histories.unfollow, run_id, history, _ring)
        log = await served.log_views.subscribe(run_id)
        held.callback(served.log_views.unsubscribe, run_id, log)
        workers = served.worker_changes.subscribe(Caller())
        held.callback(served.worker_changes.unsubscribe, workers)
        workers.attach(_ring)
        await cancel_run(served.store, run_id)  # which leaves a line in the log
        await until(lambda: log.lines)
        log._forget_tail()  # what is not kept has to be read
        follower = LogFollower(served.store, run_id, log, LogPosition())
        follower.attach(_ring)
        held.callback(follower.detach)
        assert follower.take() is None
        await view.read_again()
        yield
        await until(lambda: follower.take() is not None)
        await until(lambda: history.log_seq >= history.announced_seq > 0)


@asynccontextmanager
async def worker(stage: Stage) -> AsyncIterator[None]:
    connected = await PyocoNatsWorker.connect(stage.config(), Flows(), "w", concurrency=1)
    async with AsyncExitStack() as held:
        held.push_async_callback(connected.close)
        await held.enter_async_context(_serving(connected))
        yield


@asynccontextmanager
async def _serving(connected: PyocoNatsWorker) -> AsyncIterator[None]:
    served = asyncio.ensure_future(connected.serve())
    yield
    connected.stop()
    await asyncio.wait_for(served, 20)


@asynccontextmanager
async def slots(stage: Stage) -> AsyncIterator[None]:
    pool = Slots(stage.config(), SPEC, 1)
    await pool.start()
    try:
        yield
    finally:
        await pool.close()


@asynccontextmanager
async def reload(stage: Stage) -> AsyncIterator[None]:
    flows = stage.folder / "flows.py"
    flows.write_text("")
    renewed: list[int] = []

    async def renew() -> None:
        renewed.append(1)

    watching = Reload(f"{flows}:resolve")
    watching.start(renew)
    try:
        yield
        flows.write_text("# changed")
        await until(lambda: renewed)
    finally:
        await watching.stop()


@asynccontextmanager
async def embedded_broker(stage: Stage) -> AsyncIterator[None]:
    broker = EmbeddedBroker(data_dir=stage.folder / "data", preferred_port=free_port())
    await broker.start()
    try:
        yield
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        await until(lambda: broker.restarts == 1)
    finally:
        await broker.stop()


@asynccontextmanager
async def worker_process(stage: Stage) -> AsyncIterator[None]:
    process = WorkerProcess(WorkerPlan("w", ("default",), None), {}, drain_sec=1.0)
    process._command = [sys.executable, "-c", "import signal; signal.pause()"]
    await process.start()
    try:
        yield
    finally:
        await process.stop()


Owner = Callable[[Stage], AbstractAsyncContextManager[Any]]

# Names of loops by the owner that has them; `*` stands for what is not written in the source.
LOOPS: dict[Owner, tuple[str, ...]] = {
    gateway: (
        "API keys",
        "JWKS",
        "broker clock",
        "changes of lists after a reconnect",
        "ended processes of workers",
        "feed of *",
        "histories after a reconnect",
        "housekeeping",
        "housekeeping lease",
        "housekeeping timer",
        "new workers",
        "rebuilding the list of runs",
        "recheck batches",
        "resuming after a reconnect",
        "watch of the storage",
        "watched runs after a reconnect",
    ),
    readers: (
        "a history",
        "a watched run",
        "end of a followed log",
        "reading a log",
        "watched workers",
    ),
    worker: ("draining", "jobs", "worker lease", "worker registry entry"),
    slots: ("refill of slots", "slots"),
    reload: ("reload of flows",),
    embedded_broker: (
        "embedded broker",
        "health of the embedded broker",
        "output of the embedded broker",
    ),
    worker_process: ("worker process",),
}


def test_every_loop_of_the_source_has_a_row() -> None:
    rows = [name for names in LOOPS.values() for name in names]
    assert sorted(rows) == sorted(set(names_in_source()))


@pytest.mark.parametrize("owner", LOOPS, ids=lambda owner: owner.__name__)
async def test_a_loop_continues_after_an_unexpected_error_and_ends_when_it_is_stopped(
    owner: Owner, nats_server: NatsServer, tmp_path: Path, injection: Injection
) -> None:
    async with owner(Stage(nats_server, tmp_path)):
        for pattern in LOOPS[owner]:
            loops = injection.named(pattern)
            assert loops, pattern
            for loop in loops:
                await until(partial(injection.was_executed_again, loop))
                assert injection.failures(loop.name) >= 1
                assert loop.is_running
    await until(lambda: not [loop.name for loop in injection.loops if loop.is_running])


def names_in_source() -> Iterator[str]:
    for path in python_files(PACKAGE):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == "Loop":
                yield _pattern(node.args[0])


def _pattern(name: ast.expr) -> str:
    match name:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)
    raise AssertionError(f"the name of a loop is written where it is made: {ast.unparse(name)}")


def _ring() -> None:
    return
