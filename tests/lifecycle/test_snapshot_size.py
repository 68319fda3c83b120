"""The sizes in a run are those of its snapshot: it stays below its limit, and nothing goes that would fit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle import snapshot_size
from pyoco_server.lifecycle.reduce import Folding, fold
from pyoco_server.lifecycle.run import CancelAsked, Claim, Lack, Run, TaskRecord
from pyoco_server.lifecycle.snapshot import RunSnapshot, run_of, snapshot_of
from pyoco_server.lifecycle.snapshot_size import ROOM_BYTES
from pyoco_server.lifecycle.status import OutputKept, RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import AT, submitted
from tests.lifecycle.support.random_graphs import client_histories
from tests.lifecycle.support.random_runs import QUICK, Commit, Limit, limits, log_of, play, wishes

MAX_BYTES = 262_144
WIDE = 2**63 - 1
WIDE_FLOAT = -2.2250738585072014e-308
NO_LIMIT = 2**62
histories = wishes.map(play) | client_histories
STEPS = (Lack.NOTHING, Lack.PAYLOADS, Lack.RECORDS)

# One change of each member outside the tasks that events change.
CHANGES: dict[str, object] = {
    "tags": ("one", "two"),
    "worker_id": "w",
    "ended": RunStatus.FAILED,
    "started_at": AT + 0.5,
    "ended_at": AT + 0.25,
    "error": 'so "it" failed',
    "reason": "execution_error",
    "failed_task": "a",
    "cancel": CancelAsked(at=AT, by="me", reason="enough"),
    "claim": Claim(worker_id="w", instance_id="w.1", fence=12, claimed_at=AT),
    "fence": 12,
    "job_no": 10,
    "job_owed_since": None,
    "losses": 2,
    "crashes": 3,
    "parked": True,
    "gone": True,
    "archived": True,
}


def at_step(run: Run, step: Lack) -> RunSnapshot:
    return snapshot_of(replace(run, lacks=step), max_bytes=NO_LIMIT, commits=WIDE, log_seq=WIDE)


def widest(snapshot: RunSnapshot) -> int:
    """As large as this snapshot can get without another event."""
    core = replace(snapshot.pyoco, sizes=(WIDE,) * 6)
    return len(
        msgspec.json.encode(replace(snapshot, heartbeat_at=WIDE_FLOAT, updated_at=WIDE_FLOAT, pyoco=core))
    )


def sizes_now(run: Run) -> tuple[int, int, int]:
    return run.now_full, run.now_slim, run.now_bare


def small_tasks(count: int) -> list[e.Event]:
    names = [f"task_{n:04}" for n in range(count)]
    events: list[e.Event] = [e.TasksPlanned(at=AT, tasks=names, last=names)]
    for name in names:
        events.append(e.TaskStarted(at=AT, task=name, attempt=1, inputs={"n": 1}))
        events.append(e.TaskSucceeded(at=AT + 0.123456, task=name, attempt=1, started_at=AT, output=1))
    return [submitted(), e.RunClaimed(at=AT, worker_id="w", instance_id="i", fence=1), *events]


def test_the_example_of_the_documentation_is_right() -> None:
    events: list[e.Event] = [
        e.RunSubmitted(at=1.0, run_id="r", flow_name="f", params={}, tag="t", tags=[]),
        e.RunClaimed(at=1.0, worker_id="w", instance_id="i", fence=1),
        e.TasksPlanned(at=1.0, tasks=["a"]),
        e.TaskStarted(at=1.0, task="a", attempt=1),
        e.TaskSucceeded(at=2.0, task="a", attempt=1, started_at=1.0, output="x" * 998),
        e.RunCompleted(at=2.0),
    ]
    rows = [line.split() for line in (snapshot_size.__doc__ or "").splitlines() if line.startswith("    ")][
        1:
    ]
    folding = Folding(None)
    for event, (name, *sizes) in zip(events, rows, strict=True):
        folding.add((event,))
        run = folding.run
        assert run is not None
        assert (type(event).__name__, *map(str, sizes_now(run))) == (name, *sizes[:3])
    assert run is not None
    lacks = [snapshot_of(run, max_bytes=limit).pyoco.lacks for limit in (1_500, 1_000)]
    assert lacks == [Lack.PAYLOADS, Lack.RECORDS]


@QUICK
@given(histories)
def test_the_size_kept_from_event_to_event_is_that_of_the_snapshot(commits: list[Commit]) -> None:
    folding = Folding(None)
    for event in log_of(commits):
        folding.add((event,))
        run = folding.run
        assert run is not None
        for step, kept in zip(STEPS, sizes_now(run), strict=True):
            real = widest(at_step(run, step))
            assert real <= kept <= real + ROOM_BYTES


@QUICK
@given(histories)
def test_the_largest_size_is_the_largest_that_there_was(commits: list[Commit]) -> None:
    folding = Folding(None)
    seen: list[tuple[int, int, int]] = []
    for event in log_of(commits):
        folding.add((event,))
        assert folding.run is not None
        seen.append(sizes_now(folding.run))
    run = folding.run
    assert run is not None
    assert (run.bytes_full, run.bytes_slim, run.bytes_bare) == tuple(map(max, zip(*seen, strict=True)))


@QUICK
@given(histories, limits)
def test_nothing_is_left_out_that_has_always_fitted(commits: list[Commit], limit: Limit) -> None:
    """In the order of leaving out: payloads, records, tasks. What is written fits, or has no tasks."""
    max_bytes = limit.of(commits)
    run: Run | None = None
    needed: list[Lack] = []
    for event in log_of(commits):
        run = fold(run, (event,))
        assert run is not None
        needed.append(_first_that_fits(run, max_bytes))
    snapshot = snapshot_of(commits[-1].after, max_bytes=max_bytes, commits=WIDE, log_seq=WIDE)
    assert snapshot.pyoco.lacks == max(needed)
    assert snapshot.pyoco.lacks is Lack.TASKS or widest(snapshot) <= max_bytes


def _first_that_fits(run: Run, max_bytes: int) -> Lack:
    sizes = zip(STEPS, sizes_now(run), strict=True)
    return next((step for step, size in sizes if size <= max_bytes), Lack.TASKS)


@pytest.mark.parametrize(
    ("count", "step"), [(600, Lack.NOTHING), (1_500, Lack.RECORDS), (9_000, Lack.RECORDS)]
)
def test_tasks_stay_while_they_fit(count: int, step: Lack) -> None:
    run = fold(None, small_tasks(count))
    assert run is not None
    snapshot = snapshot_of(run, max_bytes=MAX_BYTES, commits=WIDE, log_seq=WIDE)
    assert snapshot.pyoco.lacks is step
    assert len(snapshot.tasks) == count
    assert widest(snapshot) <= MAX_BYTES


def test_a_task_that_is_tried_again_and_again_counts_once() -> None:
    """Its latest attempt is what the snapshot shows."""
    tries: list[e.Event] = [submitted()]
    for attempt in range(1, 200):
        tries.append(e.TaskStarted(at=AT, task="a", attempt=attempt, inputs={"x": "x" * 3_000}))
        tries.append(
            e.TaskFailed(at=AT, task="a", attempt=attempt, started_at=AT, error="e" * 3_000, will_retry=True)
        )
    run = fold(None, tries)
    assert run is not None
    assert snapshot_of(run, max_bytes=MAX_BYTES).pyoco.lacks is Lack.NOTHING


@given(st.sampled_from(STEPS[1:]), st.integers(1, 40))
def test_what_a_copy_lacks_it_goes_on_lacking_under_a_higher_limit(step: Lack, count: int) -> None:
    """And the flag says so."""
    run = fold(None, small_tasks(count))
    assert run is not None
    part = run_of(at_step(run, step))
    shown = snapshot_of(part, max_bytes=NO_LIMIT)
    assert (shown.pyoco.lacks, shown.task_records_truncated) == (step, True)


@pytest.mark.parametrize("member", CHANGES)
def test_what_changes_is_measured_as_in_the_whole_snapshot(member: str) -> None:
    before = fold(None, [submitted()])
    assert before is not None
    after = replace(before, **{member: CHANGES[member]})
    assert snapshot_size._head_of(before) != snapshot_size._head_of(after)
    changed = snapshot_size._changing_bytes(after) - snapshot_size._changing_bytes(before)
    assert changed == snapshot_size._head_bytes(after) - snapshot_size._head_bytes(before) != 0


def test_every_member_that_changes_is_compared() -> None:
    run = fold(None, [submitted()])
    assert run is not None
    everything = replace(run, **CHANGES)
    pairs = zip(snapshot_size._head_of(run), snapshot_size._head_of(everything), strict=True)
    assert all(one != other for one, other in pairs)


@pytest.mark.parametrize("state", TaskStatus)
@pytest.mark.parametrize("kept", [None, *OutputKept])
@pytest.mark.parametrize("attempt", [0, 1, 12])
def test_a_plain_record_is_measured_as_any_other(
    state: TaskStatus, kept: OutputKept | None, attempt: int
) -> None:
    for worker_id, instants in ((None, (None, None)), ("w\u00e4", (1.5, None)), ("w", (1763490000.1, 1e300))):
        record = TaskRecord(
            state=state,
            attempt=attempt,
            kept=kept,
            worker_id=worker_id,
            started_at=instants[0],
            ended_at=instants[1],
        )
        for name in (3, 14, 200):
            plain = snapshot_size._plain_record_bytes(name, record)
            assert plain == snapshot_size._measured_record(name, record)
