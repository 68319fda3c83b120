"""The snapshot of a run whose bucket is away or refuses: few tries, one line, and no defect that vanishes."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle.commands import ClaimRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import failures_by_loop
from pyoco_server.worker.recording import snapshot_writer
from pyoco_server.worker.recording.snapshot_writer import LOOP, SnapshotWriter
from tests.conftest import until
from tests.faults.conftest import faults, faulty_store  # noqa: F401
from tests.faults.faulty_client import Fault, Faults
from tests.worker.stage import submitted

SNAPSHOT = re.compile(r"^\$KV\.[^.]*_runs\.")


class Impatient:
    """Counts the waits, and does not wait."""

    asked = 0

    def after(self, failures: int) -> float:
        self.asked = failures
        return 0.0


async def claimed(store: Store) -> StoredRun:
    claim = ClaimRun(worker_id="w", instance_id="w.1", job_no=1)
    applied = await apply(store, await submitted(store), claim, project=False)
    assert applied.after is not None
    return applied.after


async def test_a_bucket_that_is_away_is_tried_seldom_and_said_once(
    store: Store,
    faulty_store: Store,  # noqa: F811
    faults: Faults,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    assert sum(snapshot_writer.TRY_AGAIN.after(failures) for failures in range(1, 11)) > 15.0
    patience = Impatient()
    monkeypatch.setattr(snapshot_writer, "TRY_AGAIN", patience)
    monkeypatch.setattr(faulty_store.requests, "_timeout_sec", 0.01)
    stored = await claimed(store)
    rule = faults.add(SNAPSHOT, Fault.LOSE_REQUEST, times=10**9)
    writing = asyncio.ensure_future(SnapshotWriter(faulty_store, stored).flush())
    await until(lambda: patience.asked >= 5)
    rule.times = 0
    await writing
    said = [record for record in caplog.records if record.getMessage() == "snapshot not written yet"]
    assert len(said) == 1


async def test_a_defect_is_told_and_does_not_keep_the_run_from_its_end(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stored = await claimed(store)

    async def project(_stored: Any) -> StoredRun:
        raise TypeError("a defect")

    monkeypatch.setattr(store.runs.snapshots, "project", project)
    before = failures_by_loop().get(LOOP, 0)
    writer = SnapshotWriter(store, stored)
    async with asyncio.timeout(10):
        await writer.flush()
    assert failures_by_loop()[LOOP] - before == snapshot_writer.DEFECTS_MAX
    assert "a snapshot cannot be written" in caplog.text


async def test_commits_that_follow_each_other_soon_share_the_snapshot_at_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = await claimed(store)
    written: list[int] = []
    project = store.runs.snapshots.project

    async def count(target: StoredRun) -> StoredRun:
        written.append(target.commits)
        return await project(target)

    monkeypatch.setattr(store.runs.snapshots, "project", count)
    monkeypatch.setattr(snapshot_writer, "LATE_SEC", 3600.0)
    writer = SnapshotWriter(store, stored)
    for commits in range(stored.commits, stored.commits + 5):
        writer.follow(replace(stored, commits=commits))
    await writer.flush()
    assert written == [stored.commits + 4]
