"""A run that waits frees its worker, and goes on where it was, on any worker, with the answer as a result."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pyoco import Flow

from pyoco_server import approval
from pyoco_server.engine import WaitAnswer
from pyoco_server.lifecycle.commands import CancelRun, ClaimRun, PutTaskWaiting
from pyoco_server.lifecycle.events import RunLost, TaskWaiting
from pyoco_server.lifecycle.status import LossCause, TaskStatus
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.store.store import Store
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.presence.lease_deadline import LeaseDeadline
from pyoco_server.worker.recording.recorder import Recorder
from tests.conftest import until
from tests.engine.building import flow_of, make_task
from tests.engine.test_loops import named
from tests.engine.test_waits import wait_task
from tests.worker.stage import (
    Flows,
    commits_of,
    count_of,
    ended_as,
    history,
    jobs_queued,
    lawful,
    queue_drained,
    status_of,
    submitted,
    the_run,
    until_handled,
    waiting,
    working,
)
from tests.worker.wait_stage import (
    around_performing,
    flow_with,
    release_flow,
    resume,
    time_passes,
    until_waiting,
)


async def test_a_parked_run_holds_no_worker_and_no_job_and_reads_running(store: Store) -> None:
    flows = Flows(release=release_flow([]))
    async with working(store.config, flows, worker_id="w1") as worker:
        run_id = await submitted(store, "release")
        assert await worker.run_once(5.0) == run_id
        run = await the_run(store, run_id)
        assert (run.parked, run.claim, run.status.value) == (True, None, "RUNNING")
        await queue_drained(store)
        other = await submitted(store, "noop")
        await until_handled(worker, other)
        assert await status_of(store, other) == "COMPLETED"
    # In one commit, or in two where the worker was slow.
    names = [name for commit in await commits_of(store, run_id) for name in commit]
    assert names[-2:] == ["TaskWaiting", "RunParked"]
    record = run.tasks["release"]
    assert record.wait is not None
    assert (record.state, record.wait.key, record.wait.prompt) == (
        TaskStatus.WAITING,
        "release",
        {"version": "v1"},
    )
    assert run.tasks["deploy"].state is TaskStatus.PENDING
    await lawful(store, run_id)


async def test_a_resumed_run_goes_on_on_another_worker_with_the_payload_and_builds_nothing_again(
    store: Store,
) -> None:
    ran: list[str] = []
    run_id = await submitted(store, "release")
    async with working(store.config, Flows(release=release_flow(ran)), worker_id="w1") as worker:
        assert await worker.run_once(5.0) == run_id
    await resume(store, run_id, "release", {"by": "ann"}, by="ann", comment="looks good")
    assert await jobs_queued(store) == 1
    async with working(store.config, Flows(release=release_flow(ran)), worker_id="w2") as worker:
        await until_handled(worker, run_id)
    snapshot = await ended_as(store, run_id, "COMPLETED")
    assert snapshot.task_records["deploy"].output == ["v1", {"by": "ann"}]
    assert snapshot.task_records["release"].output == {"by": "ann"}
    assert ran == ["build", "deploy"]
    assert [await count_of(store, run_id, name) for name in ("TaskWaiting", "RunParked")] == [1, 1]
    run = await the_run(store, run_id)
    assert (run.tasks["release"].by, run.tasks["release"].comment) == ("ann", "looks good")


async def test_a_rejected_run_fails_with_the_comment_and_deploys_nothing(store: Store) -> None:
    ran: list[str] = []
    async with working(store.config, Flows(release=release_flow(ran))) as worker:
        run_id = await submitted(store, "release")
        await worker.run_once(5.0)
        await resume(store, run_id, "release", rejected=True, comment="too risky", by="bob")
        await until_handled(worker, run_id)
    await ended_as(store, run_id, "FAILED")
    run = await the_run(store, run_id)
    assert (run.error, run.failed_task, ran) == ("too risky", "release", ["build"])
    assert (run.tasks["release"].code, run.tasks["deploy"].state) == ("REJECTED", TaskStatus.CANCELLED)
    assert await count_of(store, run_id, "TaskFailed") == 1


async def test_a_rejected_wait_that_fails_alone_lets_the_rest_go_on(store: Store) -> None:
    release = wait_task("release")
    release.fail_policy = "isolate"
    tasks = (release, make_task("deploy", lambda: 1, [release]), make_task("report", lambda: "said"))
    async with working(store.config, Flows(f=flow_with(*tasks))) as worker:
        run_id = await submitted(store, "f")
        await worker.run_once(5.0)
        await resume(store, run_id, "release", rejected=True)
        await until_handled(worker, run_id)
    snapshot = await ended_as(store, run_id, "COMPLETED")
    assert snapshot.tasks == {"release": "FAILED", "report": "SUCCEEDED", "deploy": "FAILED"}


@pytest.mark.parametrize(
    ("on_timeout", "status", "ran"),
    [("fail", "FAILED", ["build"]), ("succeed", "COMPLETED", ["build", "deploy"])],
)
async def test_a_wait_whose_time_is_up_comes_to_what_it_said(
    store: Store, on_timeout: str, status: str, ran: list[str]
) -> None:
    done: list[str] = []
    flow = release_flow(done, timeout_sec=60, on_timeout=on_timeout)
    async with working(store.config, Flows(release=flow)) as worker:
        run_id = await submitted(store, "release")
        await worker.run_once(5.0)
        assert (await time_passes(store, run_id, 30)).events == ()
        await time_passes(store, run_id, 90)
        await until_handled(worker, run_id)
    await ended_as(store, run_id, status)
    assert done == ran
    run = await the_run(store, run_id)
    assert run.tasks["release"].code == ("ERR_TIMEOUT" if status == "FAILED" else None)


async def test_a_cancel_ends_a_parked_run_at_once_and_no_answer_wakes_it(store: Store) -> None:
    ran: list[str] = []
    async with working(store.config, Flows(release=release_flow(ran))) as worker:
        run_id = await submitted(store, "release")
        await worker.run_once(5.0)
        applied = await apply(store, run_id, CancelRun(by="ann"))
        assert applied.after is not None
        assert applied.after.run.status.value == "CANCELLED"
        with pytest.raises(AssertionError, match="TERMINAL"):
            await resume(store, run_id, "release")
        assert (await time_passes(store, run_id)).events == ()
        assert await worker.run_once(0.2) is None
    snapshot = await ended_as(store, run_id, "CANCELLED")
    assert snapshot.tasks == {"build": "SUCCEEDED", "release": "CANCELLED", "deploy": "CANCELLED"}


async def test_an_answer_reaches_a_run_that_is_still_busy_with_another_branch(store: Store) -> None:
    started, deployed = threading.Event(), threading.Event()
    release = wait_task("release")
    tasks = (
        make_task("busy", waiting(started, deployed)),
        release,
        make_task("deploy", lambda release: deployed.set(), [release]),
    )
    async with working(store.config, Flows(f=flow_with(*tasks))) as worker:
        run_id = await submitted(store, "f")
        handled = asyncio.ensure_future(worker.run_once(5.0))
        await until_waiting(store, run_id, "release")
        await resume(store, run_id, "release", "go")
        assert await handled == run_id
    await ended_as(store, run_id, "COMPLETED")
    assert [await count_of(store, run_id, name) for name in ("RunClaimed", "RunParked")] == [1, 0]
    assert await count_of(store, run_id, "TaskSucceeded") == 3


async def test_a_wait_runs_out_of_time_under_a_worker_that_is_busy_with_another_branch(store: Store) -> None:
    started, never = threading.Event(), threading.Event()

    def patient(ctx: Any) -> None:
        started.set()
        while not ctx.is_cancelled:
            never.wait(0.01)

    tasks = (make_task("busy", patient), wait_task("release", timeout_sec=60))
    async with working(store.config, Flows(f=flow_with(*tasks))) as worker:
        run_id = await submitted(store, "f")
        handled = asyncio.ensure_future(worker.run_once(5.0))
        await until_waiting(store, run_id, "release")
        await time_passes(store, run_id)
        assert await handled == run_id
    await ended_as(store, run_id, "FAILED")
    assert (await the_run(store, run_id)).failed_task == "release"


async def test_an_answer_between_the_last_task_and_the_park_is_not_slept_over(store: Store) -> None:
    ran: list[str] = []
    async with working(store.config, Flows(release=release_flow(ran))) as worker:
        run_id = await submitted(store, "release")

        async def answer() -> None:
            await until_waiting(store, run_id, "release")
            await resume(store, run_id, "release", "just in time")

        around_performing(worker, after=answer)
        assert await worker.run_once(5.0) == run_id
        lost = [event for event in await history(store, run_id) if isinstance(event, RunLost)]
        assert [event.cause for event in lost] == [LossCause.HANDED_BACK]
        await until_handled(worker, run_id)
    snapshot = await ended_as(store, run_id, "COMPLETED")
    assert snapshot.task_records["deploy"].output == ["v1", "just in time"]
    assert (ran, await count_of(store, run_id, "RunParked")) == (["build", "deploy"], 0)
    assert (await the_run(store, run_id)).losses == 0


async def test_what_waits_to_be_recorded_is_recorded_when_a_park_is_refused(store: Store) -> None:
    bad = make_task("bad", lambda: 1 / 0, fail_policy="isolate")
    ann, bob = wait_task("ann"), wait_task("bob")
    async with working(store.config, Flows(f=flow_with(ann, bob, bad))) as worker:
        run_id = await submitted(store, "f")

        async def answer() -> None:
            await until_waiting(store, run_id, "ann")
            await resume(store, run_id, "ann")

        around_performing(worker, after=answer)
        await worker.run_once(5.0)
        run = await the_run(store, run_id)
        assert {name: record.state.value for name, record in run.tasks.items()} == {
            "ann": "SUCCEEDED",
            "bad": "FAILED",
            "bob": "WAITING",
        }
        await until_handled(worker, run_id)
        assert (await the_run(store, run_id)).parked
        await resume(store, run_id, "bob")
        await until_handled(worker, run_id)
    await ended_as(store, run_id, "COMPLETED")
    assert await count_of(store, run_id, "TaskFailed") == 1


async def test_an_answer_before_the_worker_has_begun_is_heard(store: Store) -> None:
    ann, bob = wait_task("ann"), wait_task("bob")
    both = make_task("both", lambda ann, bob: [ann, bob], [ann, bob])
    async with working(store.config, Flows(f=flow_with(ann, bob, both))) as worker:
        run_id = await submitted(store, "f")
        await worker.run_once(5.0)
        await resume(store, run_id, "ann", 1)

        async def answer() -> None:
            await resume(store, run_id, "bob", 2)

        around_performing(worker, before=answer)
        await until_handled(worker, run_id)
        if not (await the_run(store, run_id)).is_terminal:
            # On a busy machine the word comes after the walk: it is handed back, and found recorded then.
            await until_handled(worker, run_id)
    snapshot = await ended_as(store, run_id, "COMPLETED")
    assert snapshot.task_records["both"].output == [1, 2]


async def test_a_wait_that_is_reached_again_keeps_its_first_instant_and_deadline(store: Store) -> None:
    ann, bob = wait_task("ann", timeout_sec=60), wait_task("bob")
    async with working(store.config, Flows(f=flow_with(ann, bob))) as worker:
        run_id = await submitted(store, "f")
        await worker.run_once(5.0)
        first = (await the_run(store, run_id)).tasks["ann"].wait
        await resume(store, run_id, "bob")
        await until_handled(worker, run_id)
        run = await the_run(store, run_id)
    assert (run.parked, run.tasks["ann"].wait) == (True, first)
    waits = [event for event in await history(store, run_id) if isinstance(event, TaskWaiting)]
    assert [event.task for event in waits] == ["ann", "bob"]
    await lawful(store, run_id)


async def test_each_iteration_of_a_loop_parks_and_goes_on(store: Store) -> None:
    ran: list[str] = []

    def looped() -> Flow:
        build = named("build", lambda ctx: ran.append(f"build {ctx.loop.index}"))
        flow: Flow = Flow("f") >> (build >> approval("release"))[2] >> named("end", lambda release: release)
        return flow

    async with working(store.config, Flows(f=looped)) as worker:
        run_id = await submitted(store, "f")
        for index in range(2):
            await until_handled(worker, run_id)
            run = await the_run(store, run_id)
            assert (run.parked, set(run.waits)) == (True, {f"release[{index}]"})
            await resume(store, run_id, f"release[{index}]", index)
        await until_handled(worker, run_id)
    snapshot = await ended_as(store, run_id, "COMPLETED")
    assert (snapshot.task_records["end"].output, ran) == (1, ["build 0", "build 1"])


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_run_whose_wait_is_gone_from_the_flow_ends_flow_changed(
    store: Store, is_answered: bool
) -> None:
    ann, bob = wait_task("ann"), wait_task("bob")
    run_id = await submitted(store, "f")
    async with working(store.config, Flows(f=flow_with(ann, bob))) as worker:
        await worker.run_once(5.0)
    await resume(store, run_id, "ann" if is_answered else "bob")
    newer = Flows(f=flow_with(wait_task("bob"), make_task("ann", lambda: "an ordinary task now")))
    async with working(store.config, newer) as worker:
        await until_handled(worker, run_id)
    await ended_as(store, run_id, "FAILED")
    run = await the_run(store, run_id)
    assert (run.reason, run.failed_task) == ("flow_changed", "ann")
    assert "no wait 'ann' any more" in (run.error or "")


async def test_a_newer_flow_that_still_has_the_wait_goes_on(store: Store) -> None:
    ran: list[str] = []
    run_id = await submitted(store, "release")
    async with working(store.config, Flows(release=release_flow(ran))) as worker:
        await worker.run_once(5.0)
    await resume(store, run_id, "release", "yes")

    def newer() -> Flow:
        flow = release_flow(ran)()
        deploy = next(task for task in flow.tasks if task.name == "deploy")
        return flow_of(*flow.tasks, make_task("tell", lambda deploy: f"told of {deploy}", [deploy]))

    async with working(store.config, Flows(release=newer)) as worker:
        await until_handled(worker, run_id)
    snapshot = await ended_as(store, run_id, "COMPLETED")
    assert snapshot.task_records["tell"].output == "told of ['v1', 'yes']"


async def test_the_log_of_the_run_says_that_it_waits_and_is_parked(store: Store) -> None:
    async with working(store.config, Flows(f=release_flow([], timeout_sec=60))) as worker:
        run_id = await submitted(store, "f")
        await worker.run_once(5.0)
    texts = [entry.message for entry in await store.logs.entries(run_id)]
    assert any(text.startswith("task release waits for an answer to 'release' until 20") for text in texts)
    assert texts[-1] == "nothing is left but waits: the run is parked, the worker is free"


class _Engine:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, WaitAnswer]] = []

    def cancel(self, run_id: str) -> None:
        raise AssertionError("nobody has cancelled it")

    def abandon(self, run_id: str) -> None:
        raise AssertionError("it is ours")

    def answer(self, run_id: str, task: str, answer: WaitAnswer) -> None:
        self.answers.append((task, answer))

    def grant(self, run_id: str, until: float) -> None:
        """It starts nothing."""


async def test_an_answer_that_came_while_the_broker_was_out_of_reach_is_found_afterwards(
    store: Store,
) -> None:
    run_id = await submitted(store, "f")
    puller = await store.queue.pull(["default"])
    delivery = await puller.next(5.0)
    await puller.close()
    assert delivery is not None
    commands = (
        ClaimRun(worker_id="w", instance_id="w.1", job_no=1),
        PutTaskWaiting(fence=1, task="ann", attempt=1, wait_key="ann"),
        PutTaskWaiting(fence=1, task="bob", attempt=1, wait_key="bob"),
    )
    claimed = (await apply(store, run_id, *commands)).after
    assert claimed is not None
    engine, recorder = _Engine(), Recorder(store, claimed, lambda _: None)
    await resume(store, run_id, "ann", {"x": 1})
    await resume(store, run_id, "bob", rejected=True, comment="no")
    async with AttemptMonitor(
        store, delivery, run_id, LeaseDeadline(5.0)
    ) as under_way:  # listens only from here on
        under_way.begin(engine, recorder)
        under_way._catch_up_soon()
        await until(lambda: len(engine.answers) == 2)
    assert engine.answers == [("ann", WaitAnswer({"x": 1})), ("bob", WaitAnswer(error="no"))]


async def test_a_retried_run_keeps_the_answers_it_had_and_asks_again_where_it_was_told_no(
    store: Store,
) -> None:
    ran: list[str] = []
    flow = flow_with(
        ann := wait_task("ann"),
        bob := wait_task("bob", ann),
        make_task("deploy", lambda: ran.append("deploy"), [bob]),
    )
    async with working(store.config, Flows(f=flow)) as worker:
        run_id = await submitted(store, "f")
        await worker.run_once(5.0)
        await resume(store, run_id, "ann", "yes")
        await until_handled(worker, run_id)
        await resume(store, run_id, "bob", rejected=True)
        await until_handled(worker, run_id)
        again = (await retry(store, run_id, RetryRequest(), Caller())).run.run_id
        await until_handled(worker, again)
        run = await the_run(store, again)
        assert (run.parked, set(run.waits), run.tasks["ann"].output) == (True, {"bob"}, "yes")
        await resume(store, again, "bob")
        await until_handled(worker, again)
    await ended_as(store, again, "COMPLETED")
    assert ran == ["deploy"]
