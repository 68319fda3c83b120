"""Flows that wait, and answers for them, as the tests of parked runs need them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from pyoco import Flow
from pyoco.core.models import Task

from pyoco_server.lifecycle.commands import PassTime, ResumeTask
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TaskStatus
from pyoco_server.operations.runs.apply import Applied, Reading, apply
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.endings import Ending
from pyoco_server.worker.places import Place
from pyoco_server.worker.recording.recorder import Recorder
from tests.conftest import until
from tests.engine.building import flow_of, make_task
from tests.engine.test_waits import wait_task
from tests.worker.stage import the_run

YEAR_SEC = 366 * 86_400.0


def release_flow(ran: list[str], **asked: Any) -> Callable[[], Flow]:
    """build >> release (waits) >> deploy; `ran` says what was executed."""

    def build() -> str:
        ran.append("build")
        return "v1"

    def deploy(build: str, release: Any) -> list[Any]:
        ran.append("deploy")
        return [build, release]

    def made() -> Flow:
        first = make_task("build", build)
        release = wait_task("release", first, **({"prompt": {"version": "$node.build.output"}} | asked))
        return flow_of(first, release, make_task("deploy", deploy, [release]))

    return made


def flow_with(*tasks: Task) -> Callable[[], Flow]:
    return lambda: flow_of(*tasks)


async def resume(store: Store, run_id: str, task: str, payload: Any = None, **how: Any) -> Applied:
    answer = ResumeTask(task=task, wait_key=how.pop("wait_key", task), payload=payload, **how)
    applied = await apply(store, run_id, answer, reading=Reading(whole=True))
    assert applied.refused is None, applied.refused
    return applied


async def time_passes(store: Store, run_id: str, by_sec: float = YEAR_SEC) -> Applied:
    return await apply(store, run_id, PassTime(), at=time.time() + by_sec, reading=Reading(whole=True))


async def until_waiting(store: Store, run_id: str, task: str) -> None:
    async def waits() -> bool:
        record = (await the_run(store, run_id)).tasks.get(task)
        return record is not None and record.state is TaskStatus.WAITING

    await until(waits)


async def until_parked(store: Store, run_id: str) -> Run:
    async def parked() -> Run | None:
        run = await the_run(store, run_id)
        return run if run.parked else None

    run = await until(parked)
    assert isinstance(run, Run)
    return run


Act = Callable[[], Awaitable[object]]


def around_performing(
    worker: PyocoNatsWorker, *, before: Act | None = None, after: Act | None = None
) -> None:
    """Let something happen between the claim and the first task, or between the last and the end; once."""
    perform = worker._performer.perform

    async def performed(
        claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor, place: Place
    ) -> Ending:
        worker._performer.perform = perform  # type: ignore[method-assign]
        if before is not None:
            await before()
        ending = await perform(claimed, recorder, monitor, place)
        if after is not None:
            await after()
        return ending

    worker._performer.perform = performed  # type: ignore[method-assign]
