"""How much is written for a run: whatever waits joins one commit, and nothing waits for ever."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyoco import Flow, task

from pyoco_server.store.store import Store
from pyoco_server.worker import threads
from pyoco_server.worker.recording import batcher, listener
from pyoco_server.worker.recording.values import StoredResult
from tests.engine.building import flow_of, make_task, raising
from tests.worker.stage import (
    Flows,
    chain,
    commits_of,
    count_of,
    ended_as,
    expect_alive,
    one_task,
    queue_drained,
    submitted,
    the_run,
    working,
)


async def _performed(store: Store, **flow: Any) -> str:
    """Execute the flow once; gives its run id."""
    name = next(iter(flow))
    async with working(store.config, Flows(**flow)) as worker:
        run_id = await submitted(store, name, params={"number": 3})
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
    return run_id


async def test_a_run_of_one_quick_task_is_three_commits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also on a machine on which the task is not that quick. The end of a run does not wait for this.
    monkeypatch.setattr(batcher, "JOIN_NEXT_COMMIT_SEC", 10.0)
    run_id = await _performed(store, quick=one_task(lambda: "done"))
    await ended_as(store, run_id, "COMPLETED")
    assert await commits_of(store, run_id) == [
        ["RunSubmitted"],
        ["RunClaimed"],
        ["TasksPlanned", "TaskStarted", "TaskSucceeded", "RunCompleted"],
    ]


async def test_a_successor_starts_only_after_the_result_it_needs_is_committed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also on a slow machine: what needs no answer waits for the next result.
    monkeypatch.setattr(batcher, "JOIN_NEXT_COMMIT_SEC", 10.0)
    run_id = await _performed(store, steps=chain(lambda: 1, lambda: 2, lambda: 3))
    await ended_as(store, run_id, "COMPLETED")
    commits = await commits_of(store, run_id)
    assert [sum(name == "TaskSucceeded" for name in commit) for commit in commits] == [0, 0, 1, 1, 1]


async def test_a_fan_out_of_a_hundred_joins_its_facts_in_few_commits(store: Store) -> None:
    def fan() -> Flow:
        parts = [make_task(f"part{n:03}", lambda: "done") for n in range(100)]
        return flow_of(*parts, make_task("last", lambda: "all", parts))

    run_id = await _performed(store, fan=fan)
    ended = await ended_as(store, run_id, "COMPLETED")
    assert set(ended.tasks.values()) == {"SUCCEEDED"}
    assert await count_of(store, run_id, "TaskSucceeded") == 101
    assert len(await commits_of(store, run_id)) < 100


async def test_a_loop_comes_back_to_its_task_and_ends(store: Store) -> None:
    def looping() -> Any:
        @task
        def step() -> int:
            return 1

        @task
        def finish() -> str:
            return "done"

        return Flow() >> step[4] >> finish

    run_id = await _performed(store, looping=looping)
    ended = await ended_as(store, run_id, "COMPLETED")
    steps = ["step", *(f"step[{index}]" for index in range(4))]
    assert ended.tasks == dict.fromkeys([*steps, "finish"], "SUCCEEDED")
    assert {ended.task_records[step].attempt for step in steps} == {1}
    assert await count_of(store, run_id, "TaskSucceeded") == 6


async def test_a_loop_whose_last_step_is_its_last_task_ends(store: Store) -> None:
    """Every step looks like the last one: it must be committed all the same, for another may follow."""

    def looping() -> Any:
        @task
        def step(ctx: Any) -> int:
            ctx.scratch["n"] = ctx.scratch.get("n", 0) + 1
            return int(ctx.scratch["n"])

        return Flow() >> step % "$ctx.results.step >= 3"

    run_id = await _performed(store, looping=looping)
    assert (await ended_as(store, run_id, "COMPLETED")).task_records["step"].output == 3


async def test_retries_are_attempts_of_one_task(store: Store) -> None:
    tries: list[int] = []

    def third_time_lucky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return len(tries)

    run_id = await _performed(store, retries=one_task(third_time_lucky, retries=2))
    ended = await ended_as(store, run_id, "COMPLETED")
    assert (ended.task_records["only"].attempt, ended.task_records["only"].output) == (3, 3)
    assert await count_of(store, run_id, "TaskFailed") == 2


async def test_the_plan_of_a_large_flow_is_split(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PLAN_NAMES_MAX", 10)

    def large() -> Flow:
        return flow_of(*(make_task(f"t{n:02}", lambda: 1) for n in range(25)))

    run_id = await _performed(store, large=large)
    await ended_as(store, run_id, "COMPLETED")
    assert await count_of(store, run_id, "TasksPlanned") == 3
    assert len((await the_run(store, run_id)).tasks) == 25


async def test_a_flow_without_tasks_completes(store: Store) -> None:
    run_id = await _performed(store, empty=lambda: flow_of())
    assert (await ended_as(store, run_id, "COMPLETED")).tasks == {}


async def test_what_cannot_be_recorded_ends_the_run_failed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message the broker would never take must not be tried for ever, nor leave the run RUNNING."""
    monkeypatch.setattr(listener, "result_of", lambda *_: StoredResult(b"1" * 2_000_000))
    second = threading.Event()
    async with working(store.config, Flows(big=chain(lambda: 1, second.set))) as worker:
        run_id = await submitted(store, "big")
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        failed = await ended_as(store, run_id, "FAILED")
        assert "cannot be recorded" in (failed.error or "")
        assert not second.is_set()
        monkeypatch.undo()
        await expect_alive(store, worker)


async def test_an_engine_that_breaks_ends_the_run_failed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(store.config) as worker:
        run_id = await submitted(store)
        monkeypatch.setattr(threads.Threads, "_execute", lambda *_: raising(RuntimeError("fault"))())
        assert await worker.run_once(timeout=20.0) == run_id
        await queue_drained(store)
        assert (await ended_as(store, run_id, "FAILED")).pyoco.reason == "execution_error"
        monkeypatch.undo()
        await expect_alive(store, worker)
