"""Runs kept as bytes: complete or not at all, within limits."""

from __future__ import annotations

import pytest

from pyoco_server.lifecycle.events import Event, RunCompleted, RunErased
from pyoco_server.lifecycle.reduce import fold_unmeasured
from pyoco_server.read_model import recent_runs
from pyoco_server.read_model.recent_runs import COMMIT_BYTES, RecentRuns
from pyoco_server.store.runs.codec import encode_commit
from tests.store.making import START, claimed, submission, task_done

BORN = submission()
RUN_ID = BORN.run_id
COMMITS: list[list[Event]] = [[BORN], [claimed()], [*task_done("a", START + 2), RunCompleted(at=START + 3)]]


def filled() -> RecentRuns:
    recent = RecentRuns()
    for number, events in enumerate(COMMITS, 1):
        recent.add(RUN_ID, number * 10, number, encode_commit(events))
    return recent


def test_a_run_is_what_its_commits_make_of_it() -> None:
    found = filled().find(RUN_ID)
    assert found is not None
    assert found.run == fold_unmeasured(None, [event for events in COMMITS for event in events])
    assert (found.commits, found.log_seq) == (3, 30)


def test_a_run_without_its_first_commit_is_not_kept() -> None:
    recent = RecentRuns()
    recent.add(RUN_ID, 20, 2, encode_commit([claimed()]))
    assert len(recent) == 0
    assert recent.find(RUN_ID) is None


@pytest.mark.parametrize("number", [0, 1, 3, 5])
def test_a_gap_or_a_commit_without_a_number_drops_the_run(number: int) -> None:
    recent = RecentRuns()
    recent.add(RUN_ID, 10, 1, encode_commit([BORN]))
    recent.add(RUN_ID, 20, number, encode_commit([claimed()]))
    assert (len(recent), recent.size_bytes, recent.find(RUN_ID)) == (0, 0, None)


def test_an_erased_run_is_not_found() -> None:
    recent = filled()
    recent.add(RUN_ID, 40, 4, encode_commit([RunErased(at=START + 9)]))
    assert recent.find(RUN_ID) is None


def test_the_number_of_runs_is_limited_and_the_longest_unchanged_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_runs, "KEPT_RUNS_MAX", 2)
    recent = RecentRuns()
    for name in ("a", "b"):
        recent.add(name, 1, 1, encode_commit([submission(name)]))
    recent.add("a", 2, 2, encode_commit([claimed()]))
    recent.add("c", 3, 1, encode_commit([submission("c")]))
    assert [recent.find(name) is not None for name in ("a", "b", "c")] == [True, False, True]


def test_bytes_are_limited_in_total_and_for_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(encode_commit([submission("aaaa")])) + COMMIT_BYTES
    monkeypatch.setattr(recent_runs, "KEPT_BYTES_MAX", 3 * size)
    monkeypatch.setattr(recent_runs, "RUN_BYTES_MAX", 2 * size)
    recent = RecentRuns()
    for number in range(1000, 1100):
        recent.add(str(number), number, 1, encode_commit([submission(str(number))]))
        assert recent.size_bytes <= 3 * size
    assert len(recent) == 3
    recent.add("1099", 2000, 2, b"x" * 2 * size)
    assert recent.find("1099") is None
    recent.clear()
    assert (len(recent), recent.size_bytes) == (0, 0)
