"""Which of a run's waits are open, as its worker knows it; and flows that have lost one."""

from __future__ import annotations

import pytest
from pyoco import Flow

from pyoco_server import approval
from pyoco_server.engine import WaitAnswer
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.worker.flows.source import lost_wait
from pyoco_server.worker.recording.recorder import OpenWaits
from tests.engine.building import flow_of, make_task
from tests.worker.stage import a_submission

AT = 1000.0


def run_with(*events: e.Event) -> Run:
    run = fold(None, (a_submission(), *events))
    assert run is not None
    return run


def waits(task: str) -> e.TaskWaiting:
    return e.TaskWaiting(at=AT, task=task, attempt=1, wait_key=task)


def succeeded(task: str, output: object = None) -> e.TaskSucceeded:
    return e.TaskSucceeded(at=AT, task=task, attempt=1, started_at=AT, output=output)


def failed(task: str) -> e.TaskFailed:
    return e.TaskFailed(at=AT, task=task, attempt=1, started_at=AT, error="no")


def test_only_ends_of_open_waits_are_answers_and_each_once() -> None:
    open_waits = OpenWaits(run_with(waits("a"), waits("b"), waits("c"), succeeded("c")))
    heard: list[e.Event] = [
        succeeded("other"),
        succeeded("a", 5),
        failed("b"),
        succeeded("c"),
        e.RunParked(at=AT),
    ]
    assert open_waits.answered_by(heard) == [("a", WaitAnswer(5)), ("b", WaitAnswer(error="no"))]
    assert open_waits.answered_by(heard) == []
    assert not open_waits


def test_a_wait_that_the_engine_has_come_to_is_open() -> None:
    open_waits = OpenWaits(run_with())
    assert not open_waits
    open_waits.add("a")
    assert open_waits.answered_by([succeeded("a")]) == [("a", WaitAnswer(None))]


def test_what_was_answered_while_nobody_listened_is_found_in_the_run() -> None:
    before = (waits("a"), waits("b"), waits("c"))
    open_waits = OpenWaits(run_with(*before))
    now = run_with(*before, succeeded("a", 1), failed("b"))
    assert open_waits.answered_in(now) == [("a", WaitAnswer(1)), ("b", WaitAnswer(error="no"))]
    assert open_waits.answered_in(now) == []
    assert open_waits.answered_by([succeeded("c")]) == [("c", WaitAnswer(None))]


@pytest.mark.parametrize(
    ("awaited", "lost"),
    [
        ((), None),
        (("release",), None),
        (("release[0]", "release#2", "release#2[1][0]"), None),
        (("release", "gone"), "gone"),
        (("gone[3]",), "gone[3]"),
        (("build",), "build"),
    ],
)
def test_a_flow_has_lost_a_wait_when_no_waiting_task_has_its_name(
    awaited: tuple[str, ...], lost: str | None
) -> None:
    flow: Flow = flow_of(make_task("build", lambda: 1), approval("release").task)
    assert lost_wait(flow, awaited) == lost


def test_a_wait_whose_own_name_looks_like_an_iteration_is_found() -> None:
    assert lost_wait(flow_of(approval("a[0]").task), ["a[0]"]) is None
