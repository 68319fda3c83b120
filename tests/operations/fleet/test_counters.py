"""What a gateway has seen happen: each thing once, in the right place, and never less than nothing."""

from __future__ import annotations

from typing import Any

from pyoco_server.lifecycle.events import (
    CancelRequested,
    Event,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunLost,
    RunSubmitted,
    TaskFailed,
    TaskStarted,
    TaskSucceeded,
)
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import LossCause, RunStatus
from pyoco_server.operations.fleet.counters import BOUNDS_SEC, OTHER, REASONS_MAX, Counters, Histogram


def submitted(at: float = 100.0, **members: Any) -> RunSubmitted:
    return RunSubmitted(at=at, run_id="r", flow_name="f", params={}, tag="t", tags=[], **members)


def claimed(at: float, fence: int = 1) -> RunClaimed:
    return RunClaimed(at=at, worker_id="w", instance_id="w.1", fence=fence)


def seen(*commits: list[Event]) -> Counters:
    observed, run = Counters(), None
    for events in commits:
        before: Run | None = run
        run = fold(before, events)
        assert run is not None
        observed.commit(before, run, events)
    return observed


def total(spread: Histogram) -> tuple[int, float]:
    return sum(spread.counts), spread.total


def test_a_run_is_seen_from_its_submission_to_its_end() -> None:
    task: list[Event] = [
        TaskStarted(at=102.5, task="a", attempt=1),
        TaskSucceeded(at=103.0, task="a", attempt=1, started_at=102.5),
    ]
    observed = seen([submitted()], [claimed(102.0), *task], [RunCompleted(at=104.0)])
    assert observed.commits == 3
    assert observed.events[RunSubmitted] == observed.events[TaskSucceeded] == 1
    assert total(observed.start_delay) == (1, 2.0)
    assert total(observed.tasks_succeeded) == (1, 0.5)
    assert total(observed.run_durations[RunStatus.COMPLETED]) == (1, 2.0)
    assert total(observed.cancel_delay) == (0, 0.0)


def test_a_run_that_loses_its_worker_starts_once() -> None:
    lost = RunLost(at=105.0, fence=1, cause=LossCause.WORKER_LOST)
    failed = TaskFailed(at=108.0, task="a", attempt=1, started_at=107.0, error="no")
    end = RunFailed(at=110.0, reason="execution_error", error="no")
    observed = seen([submitted()], [claimed(101.0)], [lost], [claimed(106.0, fence=2), failed, end])
    assert total(observed.start_delay) == (1, 1.0)
    assert total(observed.tasks_failed) == (1, 1.0)
    assert total(observed.run_durations[RunStatus.FAILED]) == (1, 9.0)


def test_a_cancel_is_seen_from_its_request_to_its_end() -> None:
    never_claimed = seen([submitted()], [CancelRequested(at=105.0), RunCancelled(at=105.0)])
    assert total(never_claimed.cancel_delay) == (1, 0.0)
    assert total(never_claimed.run_durations[RunStatus.CANCELLED]) == (0, 0.0)
    stopped = seen([submitted()], [claimed(101.0)], [CancelRequested(at=105.0)], [RunCancelled(at=105.5)])
    assert total(stopped.cancel_delay) == (1, 0.5)
    assert total(stopped.run_durations[RunStatus.CANCELLED]) == (1, 4.5)


def test_results_taken_over_from_another_run_are_no_executions() -> None:
    carried: list[Event] = [
        TaskStarted(at=1.0, task="a", attempt=1),
        TaskSucceeded(at=2.0, task="a", attempt=1, started_at=1.0),
    ]
    assert total(seen([submitted(), *carried]).tasks_succeeded) == (0, 0.0)


def test_clocks_that_disagree_give_no_time_below_nothing() -> None:
    assert total(seen([submitted(at=200.0)], [claimed(at=100.0)]).start_delay) == (1, 0.0)


def test_a_time_falls_below_the_first_bound_that_is_not_less() -> None:
    spread = Histogram()
    for seconds in (0.0, BOUNDS_SEC[0], BOUNDS_SEC[0] + 1e-9, BOUNDS_SEC[-1], BOUNDS_SEC[-1] + 1):
        spread.add(seconds)
    assert spread.counts[0] == 2
    assert spread.counts[1] == 1
    assert spread.counts[-2:] == [1, 1]


def test_strange_reasons_do_not_become_ever_more_names() -> None:
    observed = Counters()
    for number in range(REASONS_MAX + 10):
        observed.letter(f"reason {number}")
    assert observed.letters[OTHER] == 10
    assert len(observed.letters) == REASONS_MAX + 1
