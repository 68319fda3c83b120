"""Clients of two gateways at one run, on a real broker: one wins, and an accepted cancel is never undone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Invalid
from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.graph import Graph, GraphTask, RetryPolicy, TaskKind
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import Driver, RunStatus, TaskStatus
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.operations.runs.apply import Applied, apply
from pyoco_server.operations.runs.retry import RetryRequest as Again
from pyoco_server.operations.runs.retry import retry
from pyoco_server.operations.runs.submit import submit
from pyoco_server.operations.runs.verify import verify
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.store.making import config_on, submission
from tests.worker.stage import jobs_queued

ROUNDS = 15


async def driven(store: Store, *tasks: GraphTask) -> str:
    graph = Graph(id="g", version=1, nodes=tasks)
    event = submission(driver=Driver.CLIENT, graph=graph, flow_name="graph:g")
    stored = await submit(store, event)
    await accepted(store, stored.run.run_id, c.StartRun())
    return str(stored.run.run_id)


async def accepted(store: Store, run_id: str, *commands: c.Command, **how: Any) -> Applied:
    applied = await apply(store, run_id, *commands, **how)
    assert applied.refused is None, applied.refused
    return applied


async def the_run(store: Store, run_id: str) -> Run:
    stored = await store.runs.load(run_id, at_leader=True, whole=True)
    assert stored is not None
    return stored.run


async def sound(store: Store, run_id: str) -> None:
    verified = await verify(store, run_id)
    assert verified is not None
    assert (verified.problems, verified.unchained) == ([], 0)


def take(task: str, attempt: int = 1, worker_id: str = "w") -> c.TakeTask:
    return c.TakeTask(task=task, attempt=attempt, worker_id=worker_id)


async def test_of_many_who_take_a_task_one_gets_it(store: Store, other_store: Store) -> None:
    run_id = await driven(store, GraphTask(id="a"))
    takers = [(one, f"w{n}") for n in range(10) for one in (store, other_store)]
    taken = await asyncio.gather(
        *(apply(one, run_id, take("a", worker_id=f"{name}{id(one)}")) for one, name in takers)
    )
    assert sum(bool(one.events) for one in taken) == 1
    assert {one.refused.reason for one in taken if one.refused} == {Reason.TASK_STATUS}
    await sound(store, run_id)


async def test_a_cancel_that_was_accepted_is_the_end_whatever_clients_do_meanwhile(
    store: Store, other_store: Store
) -> None:
    ends: set[RunStatus] = set()
    for _ in range(ROUNDS):
        run_id = await driven(store, GraphTask(id="a"), GraphTask(id="w", type=TaskKind.WAIT))
        await accepted(store, run_id, take("a"))
        cancelled, *_ = await asyncio.gather(
            apply(other_store, run_id, c.CancelRun()),
            apply(store, run_id, c.SucceedClientTask(task="a")),
            apply(store, run_id, c.ResumeTask(task="w", wait_key="w")),
            apply(other_store, run_id, c.PassTime()),
        )
        run = await the_run(store, run_id)
        assert run.status is (RunStatus.CANCELLED if cancelled.events else RunStatus.COMPLETED)
        late = await apply(store, run_id, c.FailClientTask(task="a", code="E", message="late"))
        assert late.refused is not None
        assert (await the_run(other_store, run_id)).status is run.status
        ends.add(run.status)
        await sound(store, run_id)
    assert RunStatus.CANCELLED in ends


async def test_no_answer_is_slept_over_by_a_park(store: Store, other_store: Store) -> None:
    """Whoever comes first: the answer has a job, or the worker that holds the run knows of it."""
    for _ in range(ROUNDS):
        stored = await submit(store, submission())
        run_id, queued = stored.run.run_id, await jobs_queued(store)
        waits = (c.PutTaskWaiting(fence=1, task=name, attempt=1, wait_key="k") for name in ("x", "y"))
        await accepted(store, run_id, c.ClaimRun(worker_id="w", instance_id="i", job_no=1), *waits)
        parked, _ = await asyncio.gather(
            apply(store, run_id, c.ParkRun(fence=1, waiting=["x", "y"])),
            accepted(other_store, run_id, c.ResumeTask(task="x", wait_key="k", payload=1)),
        )
        run = await the_run(store, run_id)
        assert run.tasks["x"].state is TaskStatus.SUCCEEDED
        assert not run.parked
        if parked.refused is None:
            assert (run.claim, run.job_no, await jobs_queued(store)) == (None, 2, queued + 1)
        else:
            assert parked.refused.reason is Reason.NOT_WAITING
            assert run.claim is not None
        await sound(store, run_id)


async def test_a_retry_begins_with_what_had_succeeded_and_queues_no_job(store: Store) -> None:
    run_id = await driven(store, GraphTask(id="a"), GraphTask(id="b", after=("a",)))
    await accepted(store, run_id, take("a"), c.SucceedClientTask(task="a", output=7), take("b"))
    await accepted(store, run_id, c.FailClientTask(task="b", code="E", message="no"))
    again = (await retry(store, run_id, Again(), ANONYMOUS)).run.run_id
    await accepted(store, again, c.StartRun())
    run = await the_run(store, again)
    assert (run.tasks["a"].output, run.tasks["b"].state) == (7, TaskStatus.READY)
    assert (run.driver, run.retry_of, await jobs_queued(store)) == (Driver.CLIENT, run_id, 0)


async def test_a_fork_has_its_task_and_what_comes_after_it_driven_again(store: Store) -> None:
    run_id = await driven(
        store,
        GraphTask(id="a"),
        GraphTask(id="b", after=("a",)),
        GraphTask(id="c", after=("b",)),
        GraphTask(id="d"),
    )
    for task in ("a", "b", "c", "d"):
        await accepted(store, run_id, take(task), c.SucceedClientTask(task=task, output=task))
    again = (await retry(store, run_id, Again(task="b", params={"n": 2}), ANONYMOUS)).run.run_id
    await accepted(store, again, c.StartRun())
    run = await the_run(store, again)
    assert {name: record.state for name, record in run.tasks.items()} == {
        "a": TaskStatus.SUCCEEDED,
        "b": TaskStatus.READY,
        "c": TaskStatus.PENDING,
        "d": TaskStatus.SUCCEEDED,
    }
    assert (run.retry_of, run.retry_from, run.params) == (run_id, "b", {"n": 2})
    for task in ("b", "c"):
        await accepted(store, again, take(task), c.SucceedClientTask(task=task))
    assert (await the_run(store, again)).status is RunStatus.COMPLETED
    await sound(store, again)
    with pytest.raises(Invalid, match="It has a, b, c, d"):
        await retry(store, run_id, Again(task="z"), ANONYMOUS)


class TestWhatDoesNotFit:
    """Runs whose snapshot has had to leave the graph out, and then the tasks."""

    @pytest.fixture(params=[800, 2_000, 4_000])
    def config(self, nats_server: NatsServer, request: pytest.FixtureRequest) -> NatsBackendConfig:
        return config_on(nats_server, max_run_snapshot_bytes=request.param)

    async def test_they_are_driven_to_their_end_all_the_same(self, store: Store) -> None:
        chain = [GraphTask(id=f"t{n}", after=(f"t{n - 1}",) if n else ()) for n in range(15)]
        run_id = await driven(store, *chain, GraphTask(id="r", retry=RetryPolicy(max_attempts=2)))
        await accepted(store, run_id, take("r"), c.FailClientTask(task="r", code="E", message="x"))
        for task in chain:
            await accepted(store, run_id, take(task.id))
            await accepted(store, run_id, c.ReportProgress(task=task.id, progress=1))
            await accepted(store, run_id, c.PutWaiting(task=task.id, wait_key="k"))
            await accepted(store, run_id, c.ResumeTask(task=task.id, wait_key="k", payload=task.id))
            await accepted(store, run_id, c.SucceedClientTask(task=task.id, output=task.id))
        await accepted(store, run_id, take("r", 2), c.SucceedClientTask(task="r"))
        run = await the_run(store, run_id)
        assert run.status is RunStatus.COMPLETED
        assert run.tasks["t14"].output == "t14"
        await sound(store, run_id)

    async def test_each_command_reads_only_what_is_new(
        self, store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_id = await driven(store, *(GraphTask(id=f"t{n}") for n in range(40)))
        begun_at: list[int] = []
        after = store.jetstream.after

        async def counted(stream: str, subject: str, seq: int) -> list[StoredMessage]:
            begun_at.append(seq)
            return await after(stream, subject, seq)

        monkeypatch.setattr(store.jetstream, "after", counted)
        for n in range(40):
            # Two of another gateway's in between: more than the last message alone has to be read.
            for one in (store, other_store, other_store):
                report = c.ReportProgress(task=f"t{n}", progress=n)
                await accepted(one, run_id, take(f"t{n}") if one is store else report)
        assert begun_at.count(0) <= 1
        history = await store.runs.history(run_id)
        folded = fold(None, [event for commit in history for event in commit.events])
        assert await the_run(store, run_id) == folded
