"""The one rule above all others, over every order of events and of commands up to a length.

Equal states are visited once, so a length stands for all histories of that many events or commands.
"""

import pytest

from pyoco_server.lifecycle import decide as decide_module
from pyoco_server.lifecycle import reduce as reduce_module
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus, TaskStatus
from tests.lifecycle.support.exploring import (
    OF_CLIENTS,
    OF_WORKERS,
    Alphabet,
    Explored,
    decisions_of,
    explore_commands,
    explore_events,
)

# One more doubles the states. These take a few seconds each.
EVENTS_LENGTH = 7
COMMANDS_LENGTH = 8
CLIENT_EVENTS_LENGTH = 7
# Of client-driven runs there are fewer: by then every history whatever has been seen.
CLIENT_COMMANDS_LENGTH = 40
# Breaking cancel wins takes four: submit, claim, cancel, and an end.
BROKEN_LENGTH = 4
MEASURED_LENGTH = 5

COMPLETED_AFTER_CANCEL = "COMPLETED after a cancel was asked"
FAILED_AFTER_CANCEL = "FAILED after a cancel was asked"
ENDS_AFTER_CANCEL = {COMPLETED_AFTER_CANCEL, FAILED_AFTER_CANCEL}


@pytest.fixture(scope="module")
def all_commands() -> Explored:
    return explore_commands(COMMANDS_LENGTH)


@pytest.mark.slow
@pytest.mark.timeout(600)  # of processor time it takes a quarter of a minute, of a busy machine much more
def test_no_order_of_events_undoes_a_cancel() -> None:
    explored = explore_events(EVENTS_LENGTH)
    assert explored.violations == {}
    assert {seen.run.status for seen in explored.states if seen.run} == set(RunStatus)


def test_no_order_of_commands_undoes_a_cancel(all_commands: Explored) -> None:
    assert all_commands.violations == {}
    assert {seen.run.status for seen in all_commands.states if seen.run} == set(RunStatus)


@pytest.mark.timeout(600)
def test_whatever_the_log_says_decide_gives_no_progress_after_a_cancel() -> None:
    reached = explore_events(EVENTS_LENGTH - 1).states
    assert any(seen.asked and seen.run and not seen.run.is_terminal for seen in reached)
    assert decisions_of(reached).violations == {}


def test_every_state_that_decide_can_lead_to_is_decided_on_without_an_exception(
    all_commands: Explored,
) -> None:
    assert decisions_of(all_commands.states).violations == {}


def test_no_order_of_events_undoes_a_cancel_of_a_client_driven_run() -> None:
    explored = explore_events(CLIENT_EVENTS_LENGTH, OF_CLIENTS)
    assert explored.violations == {}
    assert {seen.run.status for seen in explored.states if seen.run} == set(RunStatus)
    reached = [seen for seen in explored.states if seen.asked]
    assert any(seen.run and not seen.run.is_terminal for seen in reached)
    assert decisions_of(reached, OF_CLIENTS).violations == {}


def test_no_history_of_commands_at_all_undoes_a_cancel_of_a_client_driven_run() -> None:
    explored = explore_commands(CLIENT_COMMANDS_LENGTH, OF_CLIENTS)
    assert explored.closed
    assert explored.violations == {}
    runs = [seen.run for seen in explored.states if seen.run]
    assert {run.status for run in runs} == set(RunStatus) - {RunStatus.CANCELLING}
    assert {record.state for run in runs for record in run.tasks.values()} == set(TaskStatus)


@pytest.mark.parametrize("alphabet", [OF_WORKERS, OF_CLIENTS], ids=["workers", "clients"])
def test_measured_runs_reach_the_same_states(alphabet: Alphabet) -> None:
    measured = explore_events(MEASURED_LENGTH, alphabet, measured=True)
    assert measured == explore_events(MEASURED_LENGTH, alphabet)


def test_without_lock_two_the_events_undo_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    _remove_lock_two(monkeypatch)
    assert explore_events(BROKEN_LENGTH).violations.keys() >= ENDS_AFTER_CANCEL


def test_without_lock_one_decide_makes_progress_after_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = explore_events(BROKEN_LENGTH).states
    _remove_lock_one(monkeypatch)
    found = decisions_of(reached).violations.keys()
    assert found >= {
        "StartTask gave TaskStarted after a cancel was asked",
        "CompleteRun gave RunCompleted after a cancel was asked",
        "RequeueRun gave RunRequeued on a run that is over",
    }
    assert explore_commands(BROKEN_LENGTH).violations


def test_without_lock_one_clients_and_time_make_progress_after_a_cancel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = [seen for seen in explore_events(BROKEN_LENGTH + 2, OF_CLIENTS).states if seen.asked]
    _remove_lock_one(monkeypatch)
    found = decisions_of(reached, OF_CLIENTS).violations.keys()
    for said in (
        "StartRun gave RunStarted, TaskReadied",
        "TakeTask gave TaskStarted",
        "ReportProgress gave TaskProgressed",
        "PutWaiting gave TaskWaiting",
        "ResumeTask gave TaskResumed",
    ):
        assert any(one.startswith(said) and one.endswith("after a cancel was asked") for one in found)


def test_lock_two_holds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _remove_lock_one(monkeypatch)
    found = explore_commands(BROKEN_LENGTH).violations.keys()
    assert "CompleteRun was to give COMPLETED, the reducer made it CANCELLED" in found
    assert not ENDS_AFTER_CANCEL & found


def test_lock_one_holds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _remove_lock_two(monkeypatch)
    assert explore_commands(BROKEN_LENGTH + 2).violations == {}


def test_without_both_locks_the_commands_undo_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    _remove_lock_one(monkeypatch)
    _remove_lock_two(monkeypatch)
    assert explore_commands(BROKEN_LENGTH).violations.keys() >= ENDS_AFTER_CANCEL


def _remove_lock_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_run: Run) -> None:
        return None

    monkeypatch.setattr(decide_module, "progress_refused", never)


def _remove_lock_two(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_wanted(_run: Run, wanted: RunStatus) -> RunStatus:
        return wanted

    monkeypatch.setattr(reduce_module, "ending_of", as_wanted)
