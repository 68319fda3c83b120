"""The commands of docs/how-to/schedules.md, in their order, against a real `up`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_examples import blocks, typed, up

PAGE = "docs/how-to/schedules.md"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "flow.yaml").write_text(blocks("docs/reference/workflow-yaml.md", "yaml")[0])
    with up(tmp_path, "--no-worker") as port:
        yield port


def answer(line: str, port: int, folder: Path) -> Any:
    done = typed(line, port, folder)
    assert done.returncode == 0, (line, done.stderr)
    return json.loads(done.stdout)


def test_the_commands_add_list_and_delete(port: int, tmp_path: Path) -> None:
    by_name, by_file, listing, runs, delete = blocks(PAGE, "sh")[0].splitlines()
    nightly = answer(by_name, port, tmp_path)["schedule_id"]
    hourly = answer(by_file, port, tmp_path)["schedule_id"]
    assert {one["schedule_id"] for one in answer(listing, port, tmp_path)} == {nightly, hourly}
    assert answer(runs.replace("<schedule_id>", nightly), port, tmp_path) == []
    answer(delete.replace("<schedule_id>", nightly), port, tmp_path)
    assert [one["schedule_id"] for one in answer(listing, port, tmp_path)] == [hourly]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_requests_do_the_same(port: int, tmp_path: Path) -> None:
    lines = blocks(PAGE, "sh")[1].replace("\\\n", "").splitlines()
    by_name, by_file, listing, runs, upcoming, preview, run_now, delete = lines
    nightly = answer(by_name, port, tmp_path)["schedule_id"]
    hourly = answer(by_file, port, tmp_path)["schedule_id"]
    assert {one["schedule_id"] for one in answer(listing, port, tmp_path)} == {nightly, hourly}
    assert {len(one["upcoming"]) for one in answer(upcoming, port, tmp_path)} == {5}
    times = [datetime.fromtimestamp(at, UTC) for at in answer(preview, port, tmp_path)["upcoming"]]
    assert {(at.hour, at.minute) for at in times} == {(17, 30)}  # 02:30 in Tokyo
    started = answer(run_now.replace("<schedule_id>", nightly), port, tmp_path)["run_id"]
    listed = answer(runs.replace("<schedule_id>", nightly), port, tmp_path)
    assert [run["run_id"] for run in listed] == [started]
    answer(delete.replace("<schedule_id>", nightly), port, tmp_path)
    assert [one["schedule_id"] for one in answer(listing, port, tmp_path)] == [hourly]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_schedule_is_shown_paused_edited_and_filled(port: int, tmp_path: Path) -> None:
    add, *_ = blocks(PAGE, "sh")[0].splitlines()
    for block in blocks(PAGE, "sh")[2:4]:
        schedule = answer(add, port, tmp_path)["schedule_id"]
        for line in block.replace("\\\n", "").splitlines():
            done = typed(line.replace("<schedule_id>", schedule), port, tmp_path)
            assert done.returncode == 0, (line, done.stderr)
            assert '"err_id"' not in done.stdout, (line, done.stdout)
