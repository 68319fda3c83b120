"""Laws of client-driven runs, tried on random graphs and random clients."""

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.decide import Refused, decide
from pyoco_server.lifecycle.graph import GraphTask
from pyoco_server.lifecycle.reduce import reduce
from pyoco_server.lifecycle.status import RunStatus, TaskStatus
from tests.lifecycle.support.alphabet import AT
from tests.lifecycle.support.checkers import (
    Seen,
    decision_violations,
    job_violations,
    step_violations,
    stuck_violations,
)
from tests.lifecycle.support.graph_checkers import graph_violations
from tests.lifecycle.support.graphs import Led, answer, client_run, lost, take, won
from tests.lifecycle.support.random_graphs import Deed, client_histories, deed_for, deeds, graphs
from tests.lifecycle.support.random_runs import QUICK, THOROUGH, Commit, log_of

CHOICES = st.lists(st.integers(0, 5), min_size=200, max_size=200)


@THOROUGH
@given(client_histories)
def test_every_commit_leaves_the_graph_as_its_rules_say(commits: list[Commit]) -> None:
    for commit in commits:
        assert graph_violations(commit.after) == []
        assert job_violations(commit.before, commit.events, commit.after) == []
        assert stuck_violations(commit.after) == []


@THOROUGH
@given(client_histories)
def test_no_step_of_a_history_breaks_an_invariant(commits: list[Commit]) -> None:
    seen = Seen(None)
    for event in log_of(commits):
        after = seen.then(event, reduce(seen.run, event))
        assert step_violations(seen, event, after) == []
        seen = after


@QUICK
@given(client_histories, st.lists(deeds, min_size=10, max_size=10))
def test_a_cancel_at_any_moment_is_the_end_and_stays_it(commits: list[Commit], later: list[Deed]) -> None:
    run = commits[-1].after
    if run.is_terminal:
        return
    cancelled = decide(run, c.CancelRun(by="ann"), AT)
    assert not isinstance(cancelled, Refused)
    assert [type(event).__name__ for event in cancelled] == ["CancelRequested", "RunCancelled"]
    kept = {name: one for name, one in run.tasks.items() if one.state.is_finished}
    for event in cancelled:
        run = reduce(run, event) or run
    assert run.status is RunStatus.CANCELLED
    assert {name: run.tasks[name] for name in kept} == kept
    seen = Seen(run, asked=True)
    for deed in later:
        command = deed_for(run, deed)
        decision = decide(run, command, AT + 10_000)
        assert decision_violations(seen, command, decision, run) == []


@THOROUGH
@given(graphs, CHOICES)
def test_whoever_goes_on_with_a_started_graph_comes_to_its_end(
    tasks: tuple[GraphTask, ...], choices: list[int]
) -> None:
    """Each task ends in some way, now by somebody, now by time alone; there is always something to do."""
    run = Led(client_run(*tasks)).ask(c.StartRun())
    now = 0.0
    for choice in choices:
        if run.run.is_terminal:
            break
        wanted = _something_to_do(run, choice)
        if wanted is None or (choice == 0 and run.run.due):
            assert run.run.due, "nothing to do, and nothing to wait for"
            now = max(now, min(run.run.due.values()) - AT)
            wanted = c.PassTime()
        run.ask(wanted, after_sec=now)
        assert run.said
    assert run.run.is_terminal, run.states
    assert graph_violations(run.run) == []
    assert all(record.state.is_finished for record in run.run.tasks.values())


def _something_to_do(run: Led, choice: int) -> c.Command | None:
    for name, record in run.run.tasks.items():
        match record.state:
            case TaskStatus.READY:
                return take(name, record.attempt + 1)
            case TaskStatus.RUNNING:
                return won(name) if choice % 2 else lost(name)
            case TaskStatus.WAITING if record.wait is not None:
                return answer(name, record.wait.key, rejected=choice % 2 == 0)
    return None  # only backoffs are left
