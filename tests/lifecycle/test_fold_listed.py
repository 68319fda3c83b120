"""Folding for lists, and for showing, gives what folding gives, except what it leaves out."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.reduce import fold, fold_listed, fold_unmeasured
from pyoco_server.lifecycle.run import Run, without_sizes
from tests.lifecycle.support.alphabet import AT, EVENTS
from tests.lifecycle.support.random_runs import QUICK, THOROUGH, Intent, play, wishes

BORN = e.RunSubmitted(at=AT, run_id="r", flow_name="f", params={}, tag="t", tags=["t"])


def listed(run: Run | None) -> Run | None:
    return run and replace(without_sizes(run), tasks={}, last_tasks=())


def check_shown(commits: Sequence[Sequence[e.Event]]) -> None:
    measured: Run | None = None
    shown: Run | None = None
    for events in commits:
        measured, shown = fold(measured, events), fold_unmeasured(shown, events)
        assert shown == (measured and without_sizes(measured))


def check_in_step(commits: Sequence[Sequence[e.Event]]) -> None:
    """Both ways begin each commit with a run without tasks, as the table of runs has it."""
    run: Run | None = None
    for events in commits:
        expected = listed(fold(run, events))
        run = listed(fold_listed(run, events))
        assert run == expected


@THOROUGH
@given(wishes)
def test_for_lists_a_history_gives_the_same_run(asked: list[list[Intent]]) -> None:
    commits = [commit.events for commit in play(asked)]
    check_in_step(commits)
    check_shown(commits)


@THOROUGH
@given(st.lists(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=8), max_size=12))
def test_for_lists_any_log_gives_the_same_run(log: list[list[e.Event]]) -> None:
    check_in_step([[BORN], *log])
    check_shown([[BORN], *log])


@QUICK
@given(st.lists(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=8), max_size=6))
def test_for_lists_a_log_without_its_beginning_gives_the_same(log: list[list[e.Event]]) -> None:
    check_in_step(log)


def test_a_task_event_after_the_end_does_not_touch_the_run() -> None:
    late = e.TaskSucceeded(at=AT + 9, task="a", attempt=1, started_at=AT)
    run = fold_listed(None, [BORN, e.RunCompleted(at=AT + 1), late])
    assert run is not None
    assert run.updated_at == AT + 1
