"""Processor time and memory in the entry of a worker: of itself, and of each slot."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.worker.presence import usage
from pyoco_server.worker.presence.usage import Usage

BURN = "held = b'x' * 50_000_000\nprint(len(held), flush=True)\nwhile True: pass"
DEADLINE_SEC = 30.0


@pytest.fixture
def burning() -> Iterator[subprocess.Popen[bytes]]:
    """A process that uses a core, and has allocated 50 MB."""
    process = subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def _measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MEASURE_SEC", 0.0)


def test_a_busy_slot_shows_its_share_and_its_memory(burning: subprocess.Popen[bytes]) -> None:
    measured = Usage(lambda: [burning.pid])
    first = measured.described()
    assert first is not None
    assert first["cpu"] is None
    give_up_at = time.monotonic() + DEADLINE_SEC
    while True:
        found = measured.described()
        assert found is not None
        [slot] = found["slots"]
        if (slot["cpu"] or 0) > 0.05:
            break
        assert time.monotonic() < give_up_at
    assert slot["pid"] == burning.pid
    assert slot["memory_bytes"] > 50_000_000
    assert found["memory_bytes"] > slot["memory_bytes"]
    assert (found["cpu"] or 0) >= (slot["cpu"] or 0)
    assert found["cpu_cores"] == os.cpu_count()


def test_a_slot_that_has_ended_is_left_out(burning: subprocess.Popen[bytes]) -> None:
    pids = [burning.pid]
    measured = Usage(lambda: pids)
    measured.described()
    burning.kill()
    burning.wait()
    found = measured.described()
    assert found is not None
    assert found["slots"] == []


def test_it_is_measured_at_most_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MEASURE_SEC", 1000.0)
    measured = Usage(list)
    assert measured.described() is measured.described()


def test_where_the_kernel_does_not_tell_there_is_none(tmp_path: Path) -> None:
    assert Usage(list, proc=tmp_path).described() is None
    (tmp_path / str(os.getpid())).mkdir()
    (tmp_path / str(os.getpid()) / "stat").write_text("1 (a) b) S 1")
    assert Usage(list, proc=tmp_path).described() is None
