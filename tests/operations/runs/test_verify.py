"""A log that was tampered with, or a snapshot that says something else, is found out; what is old is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.lifecycle.graph import Graph, GraphTask
from pyoco_server.lifecycle.status import Driver
from pyoco_server.operations.runs import verify as verifying
from pyoco_server.operations.runs.apply import Attribution, apply
from pyoco_server.operations.runs.submit import submit
from pyoco_server.operations.runs.verify import Verified, verify, verify_all
from pyoco_server.store.store import Store
from tests.store.making import begun, purge_key, purge_log, put_bytes, stored_bytes, submission, tagged
from tests.store.runs.test_commits import messages, unchained
from tests.worker.stage import Flows, one_task, submitted, working


async def a_life(store: Store) -> str:
    """Five commits, all of it stored."""
    born = await begun(store)
    for command in (
        c.ClaimRun(worker_id="w", instance_id="w.1", job_no=1),
        c.PlanTasks(fence=1, tasks=["a"]),
        c.StartTask(fence=1, task="a", attempt=1),
        c.FailRun(fence=1, reason="execution_error", error="boom"),
    ):
        assert (await apply(store, born.run.run_id, command)).refused is None
    return str(born.run.run_id)


async def found(store: Store, run_id: str) -> Verified:
    verified = await verify(store, run_id)
    assert verified is not None
    return verified


async def rewritten(store: Store, run_id: str, change: Callable[[StoredMessage], bytes]) -> None:
    """The log with other bytes in it, under the same headers: the work of a forger at the broker."""
    kept = await messages(store, run_id)
    await purge_log(store, run_id)
    for message in kept:
        headers = "".join(
            f"{name}: {message.header(name.encode())}\r\n"
            for name in ("Pyoco-Commit", "Pyoco-Commit-No", "Pyoco-Chain")
        )
        subject = f"{store.config.events_subject_prefix}.{run_id}"
        await store.jetstream.publish(subject, change(message), f"NATS/1.0\r\n{headers}\r\n".encode())


async def test_a_run_as_it_should_be_is_ok(store: Store) -> None:
    run_id = await a_life(store)
    verified = await found(store, run_id)
    history = await store.runs.history(run_id)
    assert verified == Verified(ok=True, commits=5, head=history[-1].chain, problems=[], unchained=0)
    assert await verify(store, "8a1f0c1e-5b1d-4a52-9a39-0d4a4a8f5d10") is None


async def test_what_a_worker_commits_is_chained_from_the_first_on(store: Store) -> None:
    run_id = await submitted(store, "one")
    async with working(store.config, Flows(one=one_task(lambda: 1))) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
    verified = await found(store, run_id)
    assert (verified.problems, verified.unchained) == ([], 0)
    assert verified.commits >= 3


async def test_a_client_driven_run_is_ok_with_all_that_is_said_of_it(store: Store) -> None:
    graph = Graph(
        id="g", version=1, nodes=(GraphTask(id="a", timeout_sec=60), GraphTask(id="b", after=("a",)))
    )
    meta = CommitMeta(actor=Actor(ActorKind.EXTERNAL, "robot"), correlation_id="x")
    stored = await submit(
        store,
        submission(driver=Driver.CLIENT, graph=graph, flow_name="graph:g"),
        commit_id="first",
        meta=meta,
    )
    run_id = stored.run.run_id
    for command in (
        c.StartRun(),
        c.TakeTask(task="a", attempt=1, worker_id="w"),
        c.ReportProgress(task="a", progress=50, message="half"),
        c.PutWaiting(task="a", wait_key="k", prompt={"q": "?"}),
        c.ResumeTask(task="a", wait_key="k", payload=[1], by="ann"),
        c.SucceedClientTask(task="a", output={"n": 1}),
        c.CancelRun(),
        c.ArchiveRun(),
    ):
        assert (await apply(store, run_id, command, attribution=Attribution(meta=meta))).refused is None
        assert (await found(store, run_id)).problems == []
    history = await store.runs.history(run_id)
    assert [commit.meta for commit in history] == [meta] * 9
    assert history[0].commit_id == "first"
    loaded = await store.runs.load(run_id, whole=True)
    assert loaded is not None
    assert loaded.run.archived


async def test_a_changed_event_breaks_the_chain(store: Store) -> None:
    run_id = await a_life(store)
    await rewritten(store, run_id, lambda message: message.data.replace(b"boom", b"fine"))
    problems = (await found(store, run_id)).problems
    assert "commit 5: its chain does not follow from what stands before it" in problems
    assert 'error: the snapshot has "boom", the log says "fine"' in problems


async def test_a_missing_commit_is_noticed(store: Store) -> None:
    run_id = await a_life(store)
    third = (await messages(store, run_id))[2].seq
    await store.jetstream.api(f"STREAM.MSG.DELETE.{store.config.events_stream}", {"seq": third})
    problems = (await found(store, run_id)).problems
    assert "commit 4: commit 3 should stand there" in problems
    assert "commit 4: its chain does not follow from what stands before it" in problems


async def test_a_snapshot_that_says_something_else_is_named_member_by_member(store: Store) -> None:
    run_id = await a_life(store)
    data = await stored_bytes(store, run_id)
    assert data is not None
    await put_bytes(store, run_id, data.replace(b'"FAILED"', b'"COMPLETED"'))
    problems = (await found(store, run_id)).problems
    assert 'status: the snapshot has "COMPLETED", the log says "FAILED"' in problems
    await put_bytes(store, run_id, _with_core(data, log_seq=1))
    assert [line.split(":")[0] for line in (await found(store, run_id)).problems] == ["log_seq"]
    await put_bytes(store, run_id, _with_core(data, commits=9))
    assert "commits: the snapshot has 9, the log 5" in (await found(store, run_id)).problems


async def test_a_heartbeat_is_no_difference(store: Store) -> None:
    born = await begun(store)
    await store.runs.snapshots.beat(born, born.run.updated_at + 99)
    assert (await found(store, born.run.run_id)).ok


async def test_a_snapshot_may_lag_for_a_moment_and_not_for_long(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    born = await begun(store)
    await tagged(store, born, "x", "y")
    assert (await found(store, born.run.run_id)).ok
    monkeypatch.setattr(verifying, "BEHIND_SEC_MAX", -60.0)
    problems = (await found(store, born.run.run_id)).problems
    assert problems == ["commits: the snapshot has 1, the log 3"]


async def test_a_missing_snapshot_and_a_missing_log_are_problems(store: Store) -> None:
    without_snapshot, without_log = await a_life(store), await a_life(store)
    await purge_key(store, without_snapshot)
    await purge_log(store, without_log)
    assert (await found(store, without_snapshot)).problems == ["the snapshot is missing"]
    assert (await found(store, without_log)).problems == ["there is a snapshot, but no log"]


async def test_an_erased_run_has_only_its_mark_and_is_ok(store: Store) -> None:
    run_id = await a_life(store)
    snapshot = await stored_bytes(store, run_id)
    assert snapshot is not None
    await apply(store, run_id, c.EraseRun())
    assert await found(store, run_id) == msgspec.structs.replace(
        await found(store, run_id), ok=True, commits=1
    )
    await put_bytes(store, run_id, snapshot)
    assert (await found(store, run_id)).problems == ["the run is erased, but its snapshot is there"]


async def test_commits_of_an_older_version_are_told_and_no_problem(store: Store) -> None:
    born = await begun(store)
    await unchained(store, born, "old")
    loaded = await store.runs.load(born.run.run_id)
    assert loaded is not None
    await store.runs.snapshots.project(await tagged(store, loaded, "new"))
    verified = await found(store, born.run.run_id)
    assert (verified.ok, verified.unchained, verified.commits) == (True, 1, 3)


async def test_all_runs_are_verified(store: Store) -> None:
    sound = {await a_life(store) for _ in range(10)}
    broken = await a_life(store)
    await purge_key(store, broken)
    seen = {run_id: one.ok async for run_id, one in verify_all(store)}
    assert seen == {broken: False} | dict.fromkeys(sound, True)


def _with_core(data: bytes, **changes: Any) -> bytes:
    snapshot = msgspec.json.decode(data)
    return msgspec.json.encode(snapshot | {"pyoco": snapshot["pyoco"] | changes})


async def test_a_snapshot_of_another_version_or_limit_is_compared_in_what_does_not_depend_on_it(
    store: Store,
) -> None:
    run_id = await a_life(store)
    new = msgspec.json.decode(await stored_bytes(store, run_id) or b"")
    sums = {"bytes_full": 9_000, "bytes_slim": 7_000, "bytes_bare": 5_000}
    core = {name: value for name, value in new["pyoco"].items() if name != "sizes"}
    old = new | {"pyoco": core | sums, "task_records": {}, "task_records_truncated": True}
    await put_bytes(store, run_id, msgspec.json.encode(old))
    assert (await found(store, run_id)).problems == []
    await put_bytes(store, run_id, msgspec.json.encode(old | {"error": "other"}))
    assert [one.partition(":")[0] for one in (await found(store, run_id)).problems] == ["error"]

    config = dataclasses.replace(store.config, max_run_snapshot_bytes=800)
    await put_bytes(store, run_id, msgspec.json.encode(new))
    small = await Store.connect(config, name="small")
    assert (await found(small, run_id)).problems == []
    await small.close()
