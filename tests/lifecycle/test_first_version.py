"""What the first version stored is read as it was meant: a run's commits, and the snapshot after each."""

from pathlib import Path
from typing import Any

import msgspec

from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.store.runs.codec import decode_commit, decode_commit_meta, decode_snapshot, encode_snapshot

GOLDEN = Path(__file__).parent / "golden" / "first_version.jsonl"
LINES = GOLDEN.read_bytes().splitlines()
# The first version added up estimates; now the sizes are exact.
SIZES = {"bytes_full", "bytes_slim", "bytes_bare", "sizes"}
STORED = list(zip(LINES[::2], LINES[1::2], strict=True))


def test_its_log_folds_into_its_snapshots_but_for_their_sizes() -> None:
    run: Run | None = None
    for number, (commit, snapshot) in enumerate(STORED, start=1):
        run = fold(run, decode_commit(commit))
        assert run is not None
        again = snapshot_of(run, max_bytes=262_144, commits=number, log_seq=number * 10)
        assert without_sizes(encode_snapshot(again)) == without_sizes(snapshot)
    assert run is not None
    assert run.status.value == "CANCELLED"


def test_its_snapshots_are_readable_and_known_to_be_measured_otherwise() -> None:
    for _, stored in STORED:
        snapshot = decode_snapshot(stored)
        assert snapshot is not None
        assert snapshot.pyoco.sizes is None


def test_its_commits_say_nothing_of_who_asked() -> None:
    assert {decode_commit_meta(commit) for commit, _ in STORED} == {None}
    assert all(set(msgspec.json.decode(commit)) == {"events", "v"} for commit, _ in STORED)


def without_sizes(encoded: bytes) -> Any:
    """And without the flag, which now tells of results outside the snapshot as well."""
    members = msgspec.json.decode(encoded)
    del members["task_records_truncated"]
    core = members["pyoco"]
    members["pyoco"] = {name: core[name] for name in core if name not in SIZES}
    return members
