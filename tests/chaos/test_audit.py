"""The audit finds what is planted for it, and nothing where everything is as it should be."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from pyoco_server.http_api.faces.runs import wire
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.lifecycle.commands import CancelRun, ConfirmCancelled
from pyoco_server.lifecycle.events import (
    CancelRequested,
    Event,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunLost,
    TaskProgressed,
    TaskResumed,
    TaskStarted,
    TaskSucceeded,
)
from pyoco_server.lifecycle.status import LossCause, OutputKept
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.erase import erase_run
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.runs.log import new_commit_id
from pyoco_server.store.store import Store
from tests.chaos import audit
from tests.chaos.audit import Check, violations
from tests.chaos.evidence import Created, Evidence, Reported, Wanted
from tests.chaos.flows import Mark
from tests.chaos.inventory import Inventory, inventory
from tests.worker.stage import a_submission, publish_job

PID = 4711


def now() -> float:
    return time.time()


def claimed(fence: int = 1, instance: str = "w.1") -> RunClaimed:
    return RunClaimed(at=now(), worker_id="w", instance_id=instance, fence=fence)


def succeeded(task: str, output: Any = None, **more: Any) -> list[Event]:
    return [
        TaskStarted(at=now(), task=task, attempt=1),
        TaskSucceeded(at=now(), task=task, attempt=1, started_at=now(), output=output, **more),
    ]


async def stored(store: Store, *commits: list[Event], flow: str = "quick", key: str = "k") -> str:
    """A run with these commits after its first, and its snapshot."""
    submission = a_submission(flow, params={"key": key})
    at = await store.runs.create(submission, new_commit_id())
    for events in commits:
        at = await store.runs.snapshots.project(await store.runs.append(at, events, new_commit_id()))
    return submission.run_id


async def completed(store: Store, key: str = "k") -> str:
    return await stored(store, [claimed()], [*succeeded("only"), RunCompleted(at=now())], key=key)


def told_of(run_id: str, key: str = "k", flow: str = "quick") -> Evidence:
    wanted = Wanted(key, "/runs", {})
    answer = [f'{{"run_id":"{run_id}"}}'.encode()]
    return Evidence(created={key: Created(wanted, run_id, answer, flow, {"key": key})})


def found_by(check: Check, found: Inventory, told: Evidence | None = None) -> list[str]:
    """The runs that this check complains of."""
    return [one.run_id for one in violations(found, told or Evidence(), [check])]


async def look(store: Store) -> Inventory:
    return await inventory(store, Evidence())


async def test_nothing_is_found_where_all_is_well(store: Store, tmp_path: Path) -> None:
    told = Evidence()
    for key in ("one", "two", "three"):
        told.created |= told_of(await completed(store, key), key).created
    over = await stored(store, [claimed()], key="four")
    told.created |= told_of(over, "four").created
    for command in (CancelRun(), ConfirmCancelled(fence=1)):
        await apply(store, over, command)
    told.cancelled.add(over)
    found = await look(store)
    found.marks = [Mark(next(iter(told.run_ids - {over})), "only", PID, now())]
    found.leases["w.1"] = Lease(holder="w.1", worker_id="w", pid=PID)
    found.silent_sec["w.1"] = 0.0
    found.lists["g"] = [msgspec.to_builtins(wire.summary(run)) for run in found.runs.values()]
    found.replays = {key: (200, one.answers[0]) for key, one in told.created.items()}
    assert violations(found, told) == []
    assert await audit.settled(store, within_sec=1)


async def test_requests_refused_or_without_an_answer_are_found() -> None:
    told = Evidence(refused=[("a", "409")], unanswered=[("b", "503")])
    found = Inventory(config=None)  # type: ignore[arg-type]
    assert found_by(audit.every_request_was_answered, found, told) == ["a", "b"]


async def test_a_second_run_of_a_key_is_found(store: Store) -> None:
    first, _ = await completed(store), await completed(store)
    assert found_by(audit.one_run_per_key, await look(store), told_of(first)) == [first]


async def test_a_run_that_was_answered_and_is_gone_is_found(store: Store) -> None:
    assert found_by(audit.one_run_per_key, await look(store), told_of("lost")) == ["lost"]


async def test_a_run_of_no_answered_request_is_found(store: Store) -> None:
    run_id = await completed(store)
    assert found_by(audit.one_run_per_key, await look(store), Evidence()) == [run_id]


async def test_another_answer_for_the_same_key_is_found(store: Store) -> None:
    run_id = await completed(store)
    found, told = await look(store), told_of(run_id)
    for body in ((200, b'{"run_id":"other"}'), (409, b"no")):
        found.replays = {"k": body}
        assert found_by(audit.answers_repeat, found, told) == [run_id]


async def test_a_run_that_is_not_what_was_asked_for_is_found(store: Store) -> None:
    run_id = await completed(store)
    found, told = await look(store), told_of(run_id, flow="steps")
    found.replays = {"k": (200, told.created["k"].answers[0])}
    assert found_by(audit.answers_repeat, found, told) == [run_id]


async def test_a_cancel_that_was_answered_and_forgotten_is_found(store: Store) -> None:
    run_id = await completed(store)
    told = Evidence(cancelled={run_id})
    assert found_by(audit.accepted_cancels_won, await look(store), told) == [run_id]


async def test_a_cancel_in_the_log_that_has_not_ended_is_found(store: Store) -> None:
    run_id = await stored(store, [claimed()], [CancelRequested(at=now())])
    assert found_by(audit.accepted_cancels_won, await look(store)) == [run_id]


async def test_a_run_that_failed_or_left_tasks_out_is_found(store: Store) -> None:
    failed = await stored(store, [claimed()], [RunFailed(at=now(), reason="x", error="y")])
    empty = await stored(store, [claimed()], [RunCompleted(at=now())], key="e")
    told = told_of(failed)
    told.created |= told_of(empty, "e").created
    assert found_by(audit.runs_ended_as_asked, await look(store), told) == [failed, empty]


async def test_two_successes_of_one_task_are_found(store: Store) -> None:
    run_id = await stored(store, [claimed()], succeeded("only"), succeeded("only"))
    assert found_by(audit.one_success_per_task, await look(store)) == [run_id]


async def test_a_report_that_is_lost_or_doubled_is_found(store: Store) -> None:
    report = TaskProgressed(at=now(), task="a", progress=1, message="r")
    twice = await stored(store, [claimed()], [report], [report])
    never = await stored(store, [claimed()], [TaskProgressed(at=now(), task="a", progress=1, message="x")])
    told = Evidence(reported=[Reported(twice, "a", "r"), Reported(never, "a", "r")])
    assert set(found_by(audit.commands_took_effect_once, await look(store), told)) == {twice, never}


async def test_a_success_or_an_approval_that_is_not_in_the_log_is_found(store: Store) -> None:
    run_id = await completed(store)
    told = Evidence(succeeded={(run_id, "a")}, approved={run_id: {"by": "x"}})
    assert found_by(audit.commands_took_effect_once, await look(store), told) == [run_id, run_id]
    resumed = TaskResumed(at=now(), task="release", payload=1)
    doubled = await stored(store, [claimed()], [resumed], [resumed])
    told = Evidence(approved={doubled: 1})
    assert found_by(audit.commands_took_effect_once, await look(store), told) == [doubled]


async def test_a_task_begun_by_a_worker_that_was_taken_over_is_found(store: Store) -> None:
    lost = RunLost(at=now(), fence=1, cause=LossCause.WORKER_LOST)
    run_id = await stored(store, [claimed()], [lost], [claimed(2, "v.1")])
    found = await look(store)
    found.leases["w.1"] = Lease(holder="w.1", worker_id="w", pid=PID)
    found.marks = [Mark(run_id, "t1", PID, now())]
    assert found_by(audit.no_task_begun_after_a_takeover, found) == []
    found.marks = [Mark(run_id, "t2", PID, now() + 2 * audit.START_SLACK_SEC)]
    assert found_by(audit.no_task_begun_after_a_takeover, found) == [run_id]
    found.marks = [Mark(run_id, "t2", PID + 1, now())]
    assert found_by(audit.no_task_begun_after_a_takeover, found) == [run_id]


async def test_a_large_result_that_was_replaced_or_is_gone_is_found(store: Store) -> None:
    data = msgspec.json.encode("a text")
    kept: dict[str, Any] = {"kept": OutputKept.REFERENCED}
    good = msgspec.to_builtins(await store.results.put("a-run", 1, "make", 1, data))
    right = await stored(store, [claimed()], succeeded("make", good, **kept))
    wrong = [
        await stored(store, [claimed()], succeeded("make", output, **kept))
        for output in (good | {"bytes": 1}, good | {"object": "a/1/1/gone"}, good | {"sha256": "00"})
    ]
    other = await stored(store, [claimed()], succeeded("make", good, **kept), succeeded("check", "another"))
    found = found_by(audit.objects_are_what_was_recorded, await look(store))
    assert set(found) == {*wrong, other}
    assert right not in found


async def test_a_list_that_differs_from_the_log_is_found(store: Store) -> None:
    run_id = await completed(store)
    found = await look(store)
    right = msgspec.to_builtins(wire.summary(found.runs[run_id]))
    for items in ([], [right | {"status": "RUNNING"}], [right, right | {"run_id": "ghost"}]):
        found.lists = {"g": items}
        assert len(found_by(audit.lists_equal_the_log, found)) == 1
    found.lists = {"g": [right, right]}
    assert found_by(audit.lists_equal_the_log, found) == [""]


async def test_a_snapshot_that_is_not_what_the_log_folds_into_is_found(store: Store) -> None:
    run_id = await completed(store)
    bucket = Bucket(store.jetstream, store.config.runs_kv_bucket)
    entry = await bucket.get(run_id)
    assert entry.value is not None
    changed = entry.value.replace(b"COMPLETED", b"CANCELLED")
    await bucket.put(run_id, changed, revision=entry.revision)
    assert run_id in found_by(audit.logs_and_snapshots_agree, await look(store))


async def test_what_is_left_of_an_erased_run_is_found(store: Store) -> None:
    run_id = await completed(store)
    assert found_by(audit.nothing_is_left_of_erased_runs, await look(store), Evidence(erased={run_id}))
    await erase_run(store, run_id, by=None, tenant_id=None)
    await store.results.put(run_id, 1, "a", 1, b"{}")
    left = await look(store)
    assert left.noted == {run_id}
    assert violations(left, Evidence(), [audit.nothing_is_left_of_erased_runs]) == []
    left.noted.clear()
    found = violations(left, Evidence(), [audit.nothing_is_left_of_erased_runs])
    assert any(run_id in one.run_id and "results" in one.what for one in found)


async def test_runs_and_jobs_that_are_left_are_found(store: Store) -> None:
    run_id = await stored(store)
    await publish_job(store, {})
    assert found_by(audit.nothing_is_under_way, await look(store)) == [run_id, ""]
    assert not await audit.settled(store, within_sec=0.1)


async def test_a_claim_without_a_live_owner_is_found(store: Store) -> None:
    run_id = await stored(store, [claimed()])
    found = await look(store)
    assert found_by(audit.nothing_runs_without_an_owner, found) == [run_id]
    lists_it = {run_id: 1}
    for silent, holds, expected in ((0.0, lists_it, []), (99.0, lists_it, [run_id]), (0.0, {}, [run_id])):
        found.silent_sec["w.1"] = silent
        found.leases["w.1"] = Lease(holder="w.1", worker_id="w", holds=holds)
        assert found_by(audit.nothing_runs_without_an_owner, found) == expected


async def test_a_stream_and_a_consumer_that_are_left_behind_are_found(store: Store) -> None:
    config = store.config
    name = f"{config.events_stream}_OLD"
    await store.jetstream.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.x"]})
    wanted = {"name": "left", "ack_policy": "none", "deliver_subject": "nobody.listens"}
    await store.jetstream.api(
        f"CONSUMER.CREATE.{config.events_stream}.left",
        {"stream_name": config.events_stream, "config": wanted, "action": "create"},
    )
    found = [one.what for one in violations(await look(store), Evidence(), [audit.CHECKS[-1]])]
    assert len(found) == 2
    assert "_OLD" in found[0]
    assert "left" in found[1]
