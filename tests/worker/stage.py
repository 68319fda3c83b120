"""A stage for workers: flows by name, a worker on it, runs submitted to it, and what the broker has then.

`lawful` is the law that holds after every run: what is stored is what its log folds into.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace
from pyoco.core.models import Flow

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.headers import header_block
from pyoco_server.lifecycle.events import Event, RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import RunSnapshot, snapshot_of
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from tests.conftest import NatsServer, config_for, until
from tests.engine.building import await_signal, flow_of, make_task

Build = Callable[[], Flow]


def config_on(server: NatsServer, **changes: Any) -> NatsBackendConfig:
    """Names of its own, and a small reserve for dead letters: the broker counts what streams may grow to.

    With the half gigabyte that is right for production, a hundred tests fill the disk of the shared broker.
    """
    return config_for(server, **({"dlq_max_bytes": 1_000_000} | changes))


def one_task(func: Callable[..., Any], **settings: Any) -> Build:
    """A flow with the one task `only`."""
    return lambda: flow_of(make_task("only", func, **settings))


def waiting(started: threading.Event, go_on: threading.Event) -> Callable[[], None]:
    """A task that says when it has started, and then hears nothing but `go_on`."""

    def wait() -> None:
        started.set()
        await_signal(go_on)

    return wait


def chain(*funcs: Callable[..., Any]) -> Build:
    """Tasks `t1`, `t2`, …, each after the one before."""

    def build() -> Flow:
        tasks = [make_task("t1", funcs[0])]
        for number, func in enumerate(funcs[1:], start=2):
            tasks.append(make_task(f"t{number}", func, [tasks[-1]]))
        return flow_of(*tasks)

    return build


class Flows:
    """A flow resolver that knows these and counts what it was asked for."""

    def __init__(self, **builders: Build) -> None:
        self._builders: dict[str, Build] = {"noop": one_task(lambda: "done")} | builders
        self.asked: list[str] = []

    def __call__(self, name: str) -> Flow:
        self.asked.append(name)
        return self._builders[name]()


@asynccontextmanager
async def working(
    config: NatsBackendConfig, flows: Callable[[str], Flow] | None = None, **settings: Any
) -> AsyncIterator[PyocoNatsWorker]:
    worker = await PyocoNatsWorker.connect(config, flow_resolver=flows or Flows(), **settings)
    try:
        yield worker
    finally:
        await worker.close()


async def submitted(store: Store, flow_name: str = "noop", **wanted: Any) -> str:
    return (await submit(store, Submission(flow_name=flow_name, **wanted))).run.run_id


def a_submission(flow_name: str = "noop", **changes: Any) -> RunSubmitted:
    """A run that was not submitted yet, as its first event."""
    begun = RunSubmitted(
        at=time.time(),
        run_id=str(uuid.uuid4()),
        flow_name=flow_name,
        params={},
        tag="default",
        tags=["default"],
    )
    return replace(begun, **changes)


def not_yet_stored(submission: RunSubmitted, log_seq: int = 0) -> StoredRun:
    run = fold(None, (submission,))
    assert run is not None
    return StoredRun(run=run, commits=1, log_seq=log_seq, revision=0)


async def publish_job(store: Store, payload: object, *, tag: str = "default", **headers: str | int) -> None:
    """A message on the queue as anybody may write it; bytes go as they are."""
    data = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    block = header_block(**headers) if headers else b""
    await store.jetstream.publish(f"{store.config.work_subject_prefix}.{tag}", data, block)


def foreign_job(run_id: str | None = None, **changes: Any) -> dict[str, Any]:
    """A job as another producer writes it, by appendix E."""
    job = {"run_id": run_id or str(uuid.uuid4()), "flow_name": "noop", "tag": "default"}
    return job | {"submitted_at": time.time()} | changes


async def jobs_queued(store: Store) -> int:
    info = await store.jetstream.api(f"STREAM.INFO.{store.config.work_stream}")
    return int(info["state"]["messages"])


async def queue_drained(store: Store) -> None:
    """Every job was acknowledged or terminated."""

    async def is_empty() -> bool:
        return await jobs_queued(store) == 0

    await until(is_empty)


async def letters(store: Store) -> list[dict[str, Any]]:
    config = store.config
    found = await store.jetstream.after(config.dlq_stream, f"{config.dlq_subject_prefix}.>", 0)
    return [msgspec.json.decode(message.data) | {"at": message.subject} for message in found]


async def the_letter(store: Store) -> dict[str, Any]:
    found = await letters(store)
    assert len(found) == 1
    return found[0]


def output_of(run: Run, task: str) -> Any:
    """Whatever the task returned."""
    return run.tasks[task].output


async def the_run(store: Store, run_id: str) -> Run:
    stored = await store.runs.load(run_id, at_leader=True, whole=True)
    assert stored is not None
    return stored.run


async def status_of(store: Store, run_id: str) -> str:
    return (await the_run(store, run_id)).status.value


async def history(store: Store, run_id: str) -> list[Event]:
    return [event for _, events in await store.runs.events(run_id) for event in events]


async def commits_of(store: Store, run_id: str) -> list[list[str]]:
    """Names of the events of each commit."""
    return [[type(event).__name__ for event in events] for _, events in await store.runs.events(run_id)]


async def count_of(store: Store, run_id: str, name: str) -> int:
    return sum(type(event).__name__ == name for event in await history(store, run_id))


async def lawful(store: Store, run_id: str) -> RunSnapshot:
    """The stored snapshot, after checking that it is its log folded, but for `heartbeat_at`."""
    await until(lambda: _has_caught_up(store, run_id))
    log = await store.runs.events(run_id)
    run = fold(None, (event for _, events in log for event in events))
    assert run is not None
    limit = store.config.max_run_snapshot_bytes
    stored = await store.runs.snapshots.get(run_id)
    assert stored is not None
    # The first snapshot is written beside the first commit, when its sequence is not known yet.
    log_seq = log[-1][0] if len(log) > 1 or stored.pyoco.log_seq else 0
    folded = snapshot_of(run, max_bytes=limit, commits=len(log), log_seq=log_seq)
    assert stored.heartbeat_at >= folded.heartbeat_at
    assert stored.pyoco == folded.pyoco
    assert _plain(replace(stored, heartbeat_at=0.0)) == _plain(replace(folded, heartbeat_at=0.0))
    return stored


async def _has_caught_up(store: Store, run_id: str) -> bool:
    """The snapshot of a run that is being executed follows its log a moment later."""
    stored, log = await store.runs.snapshots.get(run_id), await store.runs.events(run_id)
    return stored is not None and stored.pyoco.commits == len(log)


async def ended_as(store: Store, run_id: str, status: str) -> RunSnapshot:
    """The law, and how it ended."""
    snapshot = await lawful(store, run_id)
    assert snapshot.status == status
    return snapshot


async def expect_alive(store: Store, worker: PyocoNatsWorker) -> None:
    """The worker lives and executes the next job."""
    run_id = await submitted(store)
    await until_handled(worker, run_id)
    await ended_as(store, run_id, "COMPLETED")


async def until_handled(worker: PyocoNatsWorker, run_id: str, *, tries: int = 10) -> None:
    """Take jobs until one of this run was handled; others may be delivered before it."""
    for _ in range(tries):
        if await worker.run_once(timeout=20.0) == run_id:
            return
    raise AssertionError("no job of the run came")


def _plain(snapshot: RunSnapshot) -> Any:
    return msgspec.json.decode(msgspec.json.encode(snapshot))
