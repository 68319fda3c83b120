"""What the first version stored is read as it was meant: a run's commits, and the snapshot after each."""

from itertools import pairwise
from pathlib import Path

import msgspec

from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import run_of, snapshot_of
from pyoco_server.store.codec import decode_commit, decode_commit_meta, decode_snapshot, encode_snapshot

GOLDEN = Path(__file__).parent / "golden" / "first_version.jsonl"
LINES = GOLDEN.read_bytes().splitlines()
STORED = list(zip(LINES[::2], LINES[1::2], strict=True))


def test_its_log_folds_into_its_snapshots_byte_for_byte() -> None:
    run: Run | None = None
    for number, (commit, snapshot) in enumerate(STORED, start=1):
        run = fold(run, decode_commit(commit))
        assert run is not None
        again = snapshot_of(run, max_bytes=262_144, commits=number, log_seq=number * 10)
        assert encode_snapshot(again) == snapshot
    assert run is not None
    assert run.status.value == "CANCELLED"


def test_its_snapshots_are_continued() -> None:
    for (_, stored), (commit, after) in pairwise(STORED):
        before, expected = decode_snapshot(stored), decode_snapshot(after)
        assert before is not None
        assert expected is not None
        assert fold(run_of(before), decode_commit(commit)) == run_of(expected)


def test_its_commits_say_nothing_of_who_asked() -> None:
    assert {decode_commit_meta(commit) for commit, _ in STORED} == {None}
    assert all(set(msgspec.json.decode(commit)) == {"events", "v"} for commit, _ in STORED)
