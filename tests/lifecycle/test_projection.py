"""The stored snapshot is the fold of the log (architecture, rule 11), and decide can live on it."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.lifecycle.commands import NeedsAllTasks
from pyoco_server.lifecycle.decide import decide
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import RunSnapshot, run_of, snapshot_of, summary_of
from pyoco_server.lifecycle.status import Driver
from tests.lifecycle.support.alphabet import AT, COMMANDS
from tests.lifecycle.support.client_alphabet import CLIENT_COMMANDS, LATER
from tests.lifecycle.support.random_graphs import client_histories
from tests.lifecycle.support.random_runs import (
    QUICK,
    THOROUGH,
    Commit,
    Intent,
    Limit,
    command_for,
    intents,
    limits,
    log_of,
    play,
    wishes,
)

# Of either driver.
histories = wishes.map(play) | client_histories
_decoder = msgspec.json.Decoder(RunSnapshot)


@THOROUGH
@given(histories, limits)
def test_storing_after_each_commit_gives_what_folding_the_whole_log_gives(
    commits: list[Commit], limit: Limit
) -> None:
    max_bytes = limit.of(commits)
    stored: RunSnapshot | None = None
    for count, commit in enumerate(commits, start=1):
        run = fold(None if stored is None else run_of(stored), commit.events)
        stored = _through_the_bucket(_snapshot(run, max_bytes))
        whole = _snapshot(fold(None, log_of(commits[:count])), max_bytes)
        assert msgspec.json.encode(stored) == msgspec.json.encode(whole)


@QUICK
@given(histories, limits, st.data())
def test_storing_now_and_then_gives_the_same(
    commits: list[Commit], limit: Limit, data: st.DataObject
) -> None:
    rest = commits
    max_bytes = limit.of(commits)
    stored: RunSnapshot | None = None
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        run = fold(None if stored is None else run_of(stored), log_of(rest[:size]))
        stored, rest = _through_the_bucket(_snapshot(run, max_bytes)), rest[size:]
    whole = _snapshot(fold(None, log_of(commits)), max_bytes)
    assert msgspec.json.encode(stored) == msgspec.json.encode(whole)


@QUICK
@given(histories, limits, st.lists(intents, min_size=20, max_size=20))
def test_a_stored_snapshot_decides_as_the_run_does(
    commits: list[Commit], limit: Limit, later: list[Intent]
) -> None:
    """But for those that ask for the whole run where a client drives it, and there is less than that."""
    for commit in commits:
        run, snapshot = commit.after, _through_the_bucket(_snapshot(commit.after, limit.of(commits)))
        back = run_of(snapshot)
        if back.tasks_dropped:
            break
        asked = (*COMMANDS, *CLIENT_COMMANDS, *(command_for(run, intent, AT) for intent in later))
        is_partial = snapshot.task_records_truncated and run.driver is Driver.CLIENT
        for command in asked:
            if not (is_partial and isinstance(command, NeedsAllTasks)):
                for at in (AT, LATER):
                    assert decide(back, command, at) == decide(run, command, at)


@QUICK
@given(histories)
def test_a_snapshot_that_leaves_nothing_out_is_the_whole_run(commits: list[Commit]) -> None:
    run = _last(commits)
    assert run_of(_snapshot(run, 10_000_000)) == run


@QUICK
@given(histories, limits)
def test_the_short_form_is_the_same_from_a_stored_snapshot(commits: list[Commit], limit: Limit) -> None:
    run = _last(commits)
    assert summary_of(run_of(_through_the_bucket(_snapshot(run, limit.of(commits))))) == summary_of(run)


@QUICK
@given(histories, limits)
def test_what_was_left_out_once_stays_out(commits: list[Commit], limit: Limit) -> None:
    steps = [_left_out(_snapshot(commit.after, limit.of(commits))) for commit in commits]
    assert steps == sorted(steps)


@QUICK
@given(histories, limits)
def test_a_snapshot_fits_into_its_limit_or_has_no_tasks(commits: list[Commit], limit: Limit) -> None:
    max_bytes = limit.of(commits)
    for commit in commits:
        snapshot = _snapshot(commit.after, max_bytes)
        assert snapshot.tasks_truncated or len(msgspec.json.encode(snapshot)) <= max_bytes


def test_how_far_it_is_folded_stands_in_the_snapshot() -> None:
    snapshot = snapshot_of(_last(play([])), max_bytes=10_000, commits=3, log_seq=17)
    assert (snapshot.pyoco.commits, snapshot.pyoco.log_seq) == (3, 17)


def _snapshot(run: Run | None, max_bytes: int) -> RunSnapshot:
    assert run is not None
    return snapshot_of(run, max_bytes=max_bytes)


def _through_the_bucket(snapshot: RunSnapshot) -> RunSnapshot:
    return _decoder.decode(msgspec.json.encode(snapshot))


def _left_out(snapshot: RunSnapshot) -> tuple[bool, bool, bool]:
    bare = bool(snapshot.tasks) and not snapshot.task_records
    return snapshot.tasks_truncated, bare, snapshot.task_records_truncated


def _last(commits: list[Commit]) -> Run:
    return commits[-1].after
