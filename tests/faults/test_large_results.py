"""Large results under faults: what a run has recorded stays what it was, and nothing else stays."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from pyoco import Flow
from pyoco.core.models import Task

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.commands import ClaimRun, ReportLoss, SucceedTask
from pyoco_server.lifecycle.status import LossCause, OutputKept
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.cancel import cancel_run
from pyoco_server.store import store as store_module
from pyoco_server.store.store import Store
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.recording.checkpoints import recorded_results
from pyoco_server.worker.recording.uploads import Uploads
from pyoco_server.worker.recording.values import StoredResult
from tests.conftest import NatsServer, until
from tests.faults.faulty_client import Fault, Faults, faulty
from tests.worker.stage import config_on, output_of, submitted, the_run

TASKS = 12
SIZE = 300_000
CHUNKS = re.compile(r"^\$O\.[^.]+\.C\.")
METAS = re.compile(r"^\$O\.[^.]+\.M\.")
RESULT = StoredResult(msgspec.json.encode("x" * SIZE), OutputKept.REFERENCED)


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(
        nats_server,
        broker_timeout_sec=1.0,
        worker_lease_sec=20.0,
        run_heartbeat_interval_sec=0.2,
        cancel_grace_period_sec=0.5,
        flow_parallelism=2,
    )


class Made:
    """What each task returned, by fence; as the log must have it."""

    def __init__(self) -> None:
        self.by_fence: dict[int, dict[str, str]] = {}

    def resolve(self, name: str) -> Flow:
        flow = Flow(name=name)
        flow.tasks = {Task(func=self._work(f"t{number}"), name=f"t{number}") for number in range(TASKS)}
        return flow

    def count(self, fence: int) -> int:
        return len(self.by_fence.get(fence, {}))

    def _work(self, task: str) -> Callable[..., str]:
        def work(ctx: Any) -> str:
            fence = int(ctx.run_context.metadata["fence"])
            time.sleep(0.05)
            made = f"{task} made by fence {fence} " + "x" * (SIZE + fence)
            self.by_fence.setdefault(fence, {})[task] = made
            return made

        return work


@asynccontextmanager
async def serving(
    config: NatsBackendConfig, made: Made, worker_id: str, make_client: Any = None
) -> AsyncIterator[PyocoNatsWorker]:
    with pytest.MonkeyPatch.context() as patch:
        if make_client is not None:
            patch.setattr(store_module, "BrokerClient", make_client)
        worker = await PyocoNatsWorker.connect(
            config, flow_resolver=made.resolve, worker_id=worker_id, concurrency=1
        )
    work = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        worker.stop()
        await worker.hand_back()
        await asyncio.wait([work], timeout=10.0)
        await worker.close()


async def is_over(store: Store, run_id: str) -> bool:
    return (await the_run(store, run_id)).is_terminal


async def subjects(store: Store) -> list[str]:
    """All that is in the bucket of results."""
    stream = f"OBJ_{store.config.results_object_bucket}"
    info = await store.jetstream.api(f"STREAM.INFO.{stream}", {"subjects_filter": ">"})
    return list(info["state"].get("subjects") or {})


async def test_a_worker_that_was_cut_off_changes_nothing_that_its_successor_has_recorded(
    config: NatsBackendConfig, store: Store, faults: Faults
) -> None:
    made = Made()
    async with serving(config, made, "cut", faulty(faults)) as cut:
        run_id = await submitted(store, "large")
        await until(lambda: made.count(1) >= 3)
        faults.is_partitioned = True
        await until(lambda: made.count(1) >= 5)  # executed, and not to be recorded
        await apply(
            store,
            run_id,
            ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=9, crashes_max=9, detail="cut off"),
        )
        async with serving(config, made, "other"):
            await until(lambda: is_over(store, run_id), within_sec=40)
            faults.is_partitioned = False
            run = await the_run(store, run_id)
            assert (run.status, run.fence) == ("COMPLETED", 2)

            await until(lambda: not cut._in_flight)

            async def only_what_is_recorded_is_left() -> bool:
                return len(await subjects(store)) == 2 * TASKS

            await until(only_what_is_recorded_is_left)
    recorded = msgspec.json.decode(await recorded_results(store, run))
    both = set(made.by_fence[1]) & set(made.by_fence[2])
    assert both, "no task was executed by both: the test shows nothing"
    for task, (text, _) in recorded.items():
        assert text in [results[task] for results in made.by_fence.values() if task in results]
        assert len(text) + 2 == output_of(run, task)["bytes"]
        assert task not in both or "fence 2" in text[:40]
    assert len(recorded) == TASKS


async def _claimed(store: Store) -> str:
    run_id = await submitted(store)
    await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.1", job_no=1))
    return run_id


def _uploads(store: Store, run_id: str, lost: list[str]) -> Uploads:
    return Uploads(store, run_id, 1, lambda: lost.append(run_id))


@pytest.mark.parametrize("fault", [Fault.LOSE_REPLY, Fault.LOSE_REQUEST])
@pytest.mark.parametrize("where", [CHUNKS, METAS], ids=["chunk", "meta"])
async def test_a_lost_answer_to_an_upload_makes_one_object(
    store: Store, faulty_store: Store, faults: Faults, where: re.Pattern[str], fault: Fault
) -> None:
    run_id = await _claimed(store)
    put: list[StoredResult] = []
    faults.add(where, fault, times=2)
    uploads = _uploads(faulty_store, run_id, [])
    uploads.begin("t", 1, RESULT, put.append)
    await uploads.wait_until_finished()
    [result] = put
    assert result.kept is OutputKept.REFERENCED
    name = msgspec.json.decode(result.json or b"")["object"]
    assert [info.name for info in await store.results.objects.list()] == [name]
    assert await store.results.objects.get(name) == RESULT.json
    # Chunks of a try that was given up are found when the run is over.
    assert [noted.run_id for noted in await store.leftovers.oldest(9)] in ([], [run_id])
    await store.results.remove_unreferenced(run_id, {name})
    assert len(await subjects(store)) == 2


@pytest.mark.parametrize("where", [CHUNKS, METAS], ids=["chunk", "meta"])
async def test_an_upload_waits_for_the_leader_of_its_stream(
    store: Store, faulty_store: Store, faults: Faults, where: re.Pattern[str]
) -> None:
    """While a leader is being chosen nobody answers: that says nothing about the result."""
    run_id = await _claimed(store)
    put: list[StoredResult] = []
    faults.add(where, Fault.NOBODY_ANSWERS, times=3)
    uploads = _uploads(faulty_store, run_id, [])
    uploads.begin("t", 1, RESULT, put.append)
    await uploads.wait_until_finished()
    [result] = put
    assert result.kept is OutputKept.REFERENCED
    name = msgspec.json.decode(result.json or b"")["object"]
    assert await store.results.objects.get(name) == RESULT.json


async def test_an_upload_that_is_stopped_leaves_nothing(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    run_id = await _claimed(store)
    uploads = _uploads(faulty_store, run_id, [])
    done: list[StoredResult] = []
    uploads.begin("done", 1, RESULT, done.append)
    await until(lambda: done)
    faults.add(CHUNKS, Fault.DELAY, times=100, sec=0.2)
    uploads.begin("under way", 1, RESULT, done.append)
    await until(lambda: any(what == Fault.DELAY for _, what in faults.happened))
    uploads.stop()
    uploads.begin("too late", 1, RESULT, done.append)
    await uploads.wait_until_stopped()
    assert len(done) == 1
    assert await subjects(store) == []


async def test_what_the_log_refers_to_is_not_removed_by_a_worker_that_did_not_hear_so(
    store: Store, faulty_store: Store
) -> None:
    run_id = await _claimed(store)
    uploads = _uploads(faulty_store, run_id, [])
    put: list[StoredResult] = []
    uploads.begin("t", 1, RESULT, put.append)
    await uploads.wait_until_finished()
    succeeded = SucceedTask(
        fence=1, task="t", attempt=1, started_at=1.0, ended_at=2.0,
        output=msgspec.Raw(put[0].json or b""), kept=OutputKept.REFERENCED,
    )  # fmt: skip
    await apply(store, run_id, succeeded)
    uploads.stop()
    await uploads.wait_until_stopped()
    assert len(await store.results.objects.list()) == 1


async def test_a_successor_stores_its_result_beside_one_that_was_never_recorded(store: Store) -> None:
    """Neither has its attempt from the log, so both count the same one."""
    run_id = await _claimed(store)
    left = await store.results.put(run_id, 1, "t", 1, b'"left behind"')
    loss = ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=9, crashes_max=9, detail="")
    await apply(store, run_id, loss)
    await apply(store, run_id, ClaimRun(worker_id="v", instance_id="v.1", job_no=2))
    put: list[StoredResult] = []
    uploads = Uploads(store, run_id, 2, lambda: None)
    uploads.begin("t", 1, RESULT, put.append)
    await uploads.wait_until_finished()
    [result] = put
    assert result.kept is OutputKept.REFERENCED
    name = msgspec.json.decode(result.json or b"")["object"]
    assert await store.results.objects.get(name) == RESULT.json
    assert await store.results.objects.get(left.object) == b'"left behind"'


async def test_uploading_ends_when_the_run_is_another_s(
    store: Store, faulty_store: Store, faults: Faults
) -> None:
    run_id = await _claimed(store)
    lost: list[str] = []
    uploads = _uploads(faulty_store, run_id, lost)
    faults.add(CHUNKS, Fault.LOSE_REQUEST, times=1)
    uploads.begin("t", 1, RESULT, lambda *_: None)
    loss = ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=9, crashes_max=9, detail="")
    await apply(store, run_id, loss)
    await uploads.wait_until_finished()
    assert lost == [run_id]
    uploads.stop()
    await uploads.wait_until_stopped()
    assert await subjects(store) == []


async def test_a_resumed_run_executes_a_task_again_whose_result_is_not_what_was_recorded(
    config: NatsBackendConfig, store: Store
) -> None:
    run_id, made = await _claimed(store), Made()
    recorded = [await store.results.put(run_id, 1, task, 1, RESULT.json or b"") for task in ("t0", "t1")]
    done = [
        SucceedTask(
            fence=1, task=f"t{number}", attempt=1, started_at=1.0, ended_at=2.0,
            output=msgspec.to_builtins(reference), kept=OutputKept.REFERENCED,
        )
        for number, reference in enumerate(recorded)
    ]  # fmt: skip
    loss = ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=9, crashes_max=9, detail="")
    await apply(store, run_id, *done, loss)
    await store.results.objects.put(recorded[1].object, b'"something else"')
    async with serving(config, made, "next"):
        await until(lambda: is_over(store, run_id))
    assert set(made.by_fence[2]) == {f"t{number}" for number in range(TASKS)} - {"t0"}


async def test_a_cancelled_run_leaves_no_object_that_was_not_recorded(
    config: NatsBackendConfig, store: Store, faults: Faults
) -> None:
    made = Made()
    async with serving(config, made, "slow", faulty(faults)):
        run_id = await submitted(store, "large")
        await until(lambda: made.count(1) >= 1)
        faults.add(CHUNKS, Fault.DELAY, times=1_000, sec=0.2)
        await until(lambda: any(what == Fault.DELAY for _, what in faults.happened))
        await cancel_run(store, run_id)
        await until(lambda: is_over(store, run_id))
        run = await the_run(store, run_id)
        recorded = sum(record.kept is OutputKept.REFERENCED for record in run.tasks.values())

        async def only_what_is_recorded_is_left() -> bool:
            return len(await subjects(store)) == 2 * recorded

        await until(only_what_is_recorded_is_left)
    assert run.status == "CANCELLED"
