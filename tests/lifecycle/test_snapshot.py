"""A run as it is stored: its members, what it leaves out when it gets too big, and that it then fits."""

import msgspec
import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import Graph
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import ERROR_CHARS_MAX, ERROR_SLIM_CHARS, MESSAGE_CHARS_MAX, Run
from pyoco_server.lifecycle.snapshot import RunSnapshot, compact_run_snapshot, run_of, snapshot_of, summary_of
from pyoco_server.lifecycle.status import OutputKept, RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import AT, claim, fail, run_after, start, submitted, succeed, wait
from tests.lifecycle.support.graphs import START, Led, client_run, take, task

INSTANT = 1763254636.1234567  # as long as an instant gets
MAX_BYTES = 262_144
TASKS = ("planned", "started", "succeeded", "failed", "waiting", "skipped", "readied", "taken", "retried")


def size_of(snapshot: RunSnapshot) -> int:
    return len(msgspec.json.encode(snapshot))


def long_instants(name: str, kind: str, text: str) -> e.Event:
    """One event that makes a task known by itself, with members as long as they get."""
    match kind:
        case "planned":
            return e.TasksPlanned(at=INSTANT, tasks=[name])
        case "started":
            return e.TaskStarted(at=INSTANT, task=name, attempt=99_999, inputs={"x": text})
        case "succeeded":
            return e.TaskSucceeded(
                at=INSTANT,
                task=name,
                attempt=99_999,
                started_at=INSTANT - 86_399.9876543,
                output=text,
                kept=OutputKept.UNSERIALISABLE,
            )
        case "failed":
            return e.TaskFailed(
                at=INSTANT,
                task=name,
                attempt=99_999,
                started_at=INSTANT - 86_399.9876543,
                error=text,
                traceback=text,
            )
        case "waiting":
            return e.TaskWaiting(
                at=INSTANT, task=name, attempt=99_999, wait_key="k", prompt={"ask": text}, deadline_at=INSTANT
            )
        case "readied":
            return e.TaskReadied(at=INSTANT, task=name)
        case "taken":
            return e.TaskStarted(
                at=INSTANT, task=name, attempt=99_999, worker_id=text[:128], deadline_at=INSTANT
            )
        case "retried":
            return e.TaskFailed(
                at=INSTANT,
                task=name,
                attempt=99_999,
                started_at=INSTANT - 86_399.9876543,
                error=text,
                code=text[:128],
                will_retry=True,
                retry_at=INSTANT,
            )
        case _:
            return e.TaskCancelled(at=INSTANT, task=name)


def run_of_tasks(count: int, kind: str, name: str = "t", text: str = "") -> Run:
    begun = (submitted(at=INSTANT), e.RunClaimed(at=INSTANT, worker_id="w", instance_id="i", fence=1))
    run = fold(None, (*begun, *(long_instants(f"{name}{n}", kind, text) for n in range(count))))
    assert run is not None
    return run


def step_of(snapshot: RunSnapshot) -> str:
    if snapshot.tasks_truncated:
        return "dropped"
    if not snapshot.task_records:
        return "bare"
    return "slim" if snapshot.task_records_truncated else "full"


# Fitting


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("name", ["t", "非常に長い名前" * 20, '\x01\x02"\\' * 30])
@pytest.mark.parametrize("text", ["", "x" * 5_000, "\x00" * 5_000, "誤" * 5_000])
@pytest.mark.parametrize("count", [1, 10, 300])
def test_a_snapshot_fits_at_every_step_of_leaving_out(kind: str, name: str, text: str, count: int) -> None:
    run = run_of_tasks(count, kind, name, text)
    sums = (run.bytes_full, run.bytes_slim, run.bytes_bare)
    for max_bytes in (*sums, *(one - 1 for one in sums), MAX_BYTES, 10_000):
        assert size_of(snapshot_of(run, max_bytes=max_bytes)) <= max_bytes


@pytest.mark.parametrize("count", [1, 20, 1000])
@pytest.mark.parametrize("text", ["x", "\x00" * 300])
def test_a_client_driven_run_fits_from_its_submission_to_its_end(count: int, text: str) -> None:
    tasks = [task("t" * 60 + str(n), timeout_sec=86_399.9876543, prompt={"ask": text}) for n in range(count)]
    run = Led(client_run(*tasks)).ask(START)
    first = tasks[0].id
    steps: tuple[c.Command, ...] = (
        take(first, worker_id=text[:128]),
        c.ReportProgress(task=first, progress=99.99999999999, message=text),
        c.PutWaiting(task=first, wait_key=text, prompt={"ask": text}),
        c.ResumeTask(task=first, wait_key=text, payload=text, by=text[:99], comment=text),
        c.SucceedClientTask(task=first, output=text),
    )
    for command in steps:
        state = run.ask(command).run
        sums = (state.bytes_full, state.bytes_slim, state.bytes_bare)
        for max_bytes in (*sums, *(one - 1 for one in sums)):
            assert size_of(snapshot_of(state, max_bytes=max_bytes)) <= max_bytes


def test_what_a_task_says_of_its_progress_is_counted_once_however_often_it_says_it() -> None:
    run = Led(client_run(task("a"))).ask(START, take("a"))
    before = run.run
    for n in range(1000):
        run.ask(c.ReportProgress(task="a", progress=n / 10, message="m" * 500))
    assert run.run.bytes_full - before.bytes_full <= MESSAGE_CHARS_MAX + 60
    assert run.run.bytes_bare == before.bytes_bare


def test_a_graph_goes_first_and_leaves_its_name() -> None:
    run = Led(client_run(task("a", timeout_sec=9), task("b", "a"))).ask(START, take("a")).run
    whole = snapshot_of(run, max_bytes=MAX_BYTES)
    assert run_of(whole) == run
    assert whole.tasks == {"a": "RUNNING", "b": "PENDING"}
    slim = snapshot_of(run, max_bytes=run.bytes_slim)
    assert step_of(slim) == "slim"
    assert slim.pyoco.graph == Graph(id="g", version=1)
    assert run_of(slim).due == run.due
    assert run_of(snapshot_of(run, max_bytes=0)).due == {}


@pytest.mark.parametrize("limit", ["bytes_full", "bytes_slim", "bytes_bare"])
def test_who_is_ready_reads_pending_and_comes_back_ready(limit: str) -> None:
    run = Led(client_run(task("a"), task("b", "a"))).ask(START).run
    snapshot = snapshot_of(run, max_bytes=getattr(run, limit))
    assert snapshot.tasks == {"a": "PENDING", "b": "PENDING"}
    back = run_of(snapshot).tasks
    assert (back["a"].state, back["b"].state) == (TaskStatus.READY, TaskStatus.PENDING)


def test_ten_thousand_tasks_fit() -> None:
    snapshot = snapshot_of(run_of_tasks(10_000, "succeeded"), max_bytes=MAX_BYTES)
    assert step_of(snapshot) == "dropped"
    assert size_of(snapshot) <= 1_024


@pytest.mark.parametrize("char", ["x", "誤", "\x00", '"'])
def test_what_is_said_of_the_run_itself_makes_the_tasks_give_way(char: str) -> None:
    run = run_after(
        c.AddTag(tag=char * 500, tags_max=9),
        c.ClaimRun(worker_id=char * 128, instance_id=char * 128, job_no=1),
        *(succeed(1, f"t{n}") for n in range(10)),
        c.FailRun(fence=1, reason="execution_error", error=char * 500_000, task=char * 200),
    )
    for max_bytes in (run.bytes_full, run.bytes_slim, run.bytes_bare, MAX_BYTES):
        assert size_of(snapshot_of(run, max_bytes=max_bytes)) <= max_bytes
    alone = len(msgspec.json.encode(char * ERROR_CHARS_MAX))
    assert size_of(snapshot_of(run, max_bytes=0)) <= alone + 2 * len(msgspec.json.encode(char * 1000)) + 4096


def test_a_cancel_with_a_long_reason_makes_the_tasks_give_way() -> None:
    run = run_after(claim(), succeed(1, "a"), c.CancelRun(by="誤" * 300, reason="\x00" * 3_000))
    for max_bytes in (run.bytes_full, run.bytes_slim, run.bytes_bare):
        assert size_of(snapshot_of(run, max_bytes=max_bytes)) <= max_bytes


def test_what_the_submission_needs_is_never_left_out() -> None:
    run = run_after(claim(), succeed(1, "a"), submission=submitted(params={"x": "y" * 5_000}))
    snapshot = snapshot_of(run, max_bytes=1_000)
    assert snapshot.params == {"x": "y" * 5_000}
    assert (snapshot.tasks, snapshot.tasks_truncated) == ({}, True)
    assert size_of(snapshot) <= 5_000 + 1_024


@pytest.mark.parametrize("char", ["x", "流", "\n"])
def test_the_yaml_text_stands_in_the_log_and_weighs_nothing_here(char: str) -> None:
    plain = run_after(submission=submitted(workflow_yaml_bytes=9))
    with_yaml = run_after(submission=submitted(workflow_yaml=char * 100_000, workflow_yaml_bytes=9))
    assert with_yaml == plain


# Leaving out, step by step


def test_outputs_go_first_then_records_then_tasks() -> None:
    run = run_of_tasks(50, "succeeded", text="x" * 100)
    limits = (run.bytes_full, run.bytes_slim, run.bytes_bare, run.bytes_bare - 1)
    snapshots = [snapshot_of(run, max_bytes=max_bytes) for max_bytes in limits]
    assert [step_of(snapshot) for snapshot in snapshots] == ["full", "slim", "bare", "dropped"]
    assert [snapshot.task_records_truncated for snapshot in snapshots] == [False, True, True, True]
    assert [snapshot.tasks_truncated for snapshot in snapshots] == [False, False, False, True]
    assert [len(snapshot.tasks) for snapshot in snapshots] == [50, 50, 50, 0]
    assert [len(snapshot.task_records) for snapshot in snapshots] == [50, 50, 0, 0]


def test_a_slim_record_has_no_payload_and_a_short_error() -> None:
    run = run_after(claim(), start(1, "a", inputs={"x": 1}), fail(1, "a", error="e" * 1_000))
    slim = snapshot_of(run, max_bytes=run.bytes_full - 1).task_records["a"]
    assert (slim.error, slim.inputs, slim.output) == ("e" * ERROR_SLIM_CHARS, {}, None)
    assert (slim.state, slim.attempt, slim.started_at) == (TaskStatus.FAILED, 1, AT)


def test_what_is_waited_for_is_kept_when_records_are_not() -> None:
    run = run_after(claim(), wait(1, "b", attempt=3), succeed(1, "a"))
    bare = snapshot_of(run, max_bytes=run.bytes_bare)
    assert step_of(bare) == "bare"
    assert run_of(bare).tasks["b"].wait == run.tasks["b"].wait
    assert run_of(bare).tasks["b"].state is TaskStatus.WAITING
    assert bare.pyoco.attempts == {"b": 3}
    assert {name: record.attempt for name, record in run_of(bare).tasks.items()} == {"b": 3, "a": 1}


def test_dropped_tasks_do_not_come_back_with_a_higher_limit() -> None:
    run = run_of_tasks(50, "succeeded")
    dropped = run_of(snapshot_of(run, max_bytes=1))
    assert (dropped.tasks, dropped.tasks_dropped) == ({}, True)
    assert step_of(snapshot_of(dropped, max_bytes=10**9)) == "dropped"


# Members


def test_a_snapshot_has_the_members_of_the_contract() -> None:
    run = run_after(claim(), start(1, "a", inputs={"x": 1}), succeed(1, "a", output=[1]), wait(1, "b"))
    shown = msgspec.to_builtins(snapshot_of(run, max_bytes=MAX_BYTES))
    assert shown["status"] == "RUNNING"
    assert shown["tasks"] == {"a": "SUCCEEDED", "b": "RUNNING"}
    assert shown["task_records"]["a"] == {
        "state": "SUCCEEDED",
        "started_at": AT,
        "ended_at": AT,
        "duration_ms": 0.0,
        "error": None,
        "traceback": None,
        "inputs": {"x": 1},
        "output": [1],
        "artifacts": {},
        "attempt": 1,
        "kept": "stored",
        "wait": None,
        "worker_id": "w1",
    }
    assert shown["task_records"]["b"]["wait"] == {"key": "k", "since": AT, "attempt": 1}
    assert (shown["run_id"], shown["worker_id"], shown["tag"], shown["tags"]) == (
        "r1",
        "w1",
        "default",
        ["blue"],
    )


def test_a_cancel_stands_in_the_snapshot_and_comes_back() -> None:
    run = run_after(claim(), c.CancelRun(by="ann", reason="enough"))
    snapshot = snapshot_of(run, max_bytes=MAX_BYTES)
    assert (snapshot.status, snapshot.cancel_requested_at, snapshot.cancel_requested_by) == (
        RunStatus.CANCELLING,
        AT,
        "ann",
    )
    assert run_of(snapshot).cancel == run.cancel


def test_the_short_form_says_how_it_ended() -> None:
    run = run_after(claim(), c.FailRun(fence=1, reason="execution_error", error="boom"))
    summary = summary_of(run)
    assert (summary.status, summary.error, summary.end_time) == (RunStatus.FAILED, "boom", AT)
    assert (summary.worker_id, summary.cancel_requested_at) == ("w1", None)


# Snapshots made elsewhere

ELSEWHERE = {
    "run_id": "r1",
    "tasks": {"a": "SUCCEEDED"},
    "task_records": {"a": {"output": "x" * 1_000}},
    "error": "あ",
}


def test_a_snapshot_made_elsewhere_that_fits_is_left_as_it_is() -> None:
    assert compact_run_snapshot(ELSEWHERE, max_bytes=5_000) == ELSEWHERE


def test_a_snapshot_made_elsewhere_that_is_too_big_keeps_its_tasks() -> None:
    fitted = compact_run_snapshot(ELSEWHERE, max_bytes=200)
    assert fitted == ELSEWHERE | {"task_records": {}, "task_records_truncated": True}
    assert len(msgspec.json.encode(fitted)) <= 200


def test_the_limit_itself_still_fits() -> None:
    size = len(msgspec.json.encode(ELSEWHERE))
    assert compact_run_snapshot(ELSEWHERE, max_bytes=size) == ELSEWHERE
    assert compact_run_snapshot(ELSEWHERE, max_bytes=size - 1)["task_records"] == {}


def test_a_snapshot_that_came_without_its_records_goes_on_saying_so() -> None:
    cut = ELSEWHERE | {"task_records": {}, "task_records_truncated": True}
    assert compact_run_snapshot(cut, max_bytes=5_000) == cut


@pytest.mark.parametrize("max_bytes", [0, -1])
def test_no_limit_leaves_nothing_out(max_bytes: int) -> None:
    assert compact_run_snapshot(ELSEWHERE, max_bytes=max_bytes) == ELSEWHERE


@pytest.mark.parametrize("max_bytes", [0, 10, 10_000])
def test_what_was_handed_in_is_not_changed(max_bytes: int) -> None:
    handed_in = ELSEWHERE | {"task_records_truncated": False}
    kept = msgspec.json.encode(handed_in)
    compact_run_snapshot(handed_in, max_bytes=max_bytes)
    assert msgspec.json.encode(handed_in) == kept


def test_tasks_stay_even_when_they_alone_are_too_big() -> None:
    fitted = compact_run_snapshot(ELSEWHERE, max_bytes=1)
    assert (fitted["tasks"], fitted["task_records_truncated"]) == ({"a": "SUCCEEDED"}, True)
