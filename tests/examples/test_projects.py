"""The projects in examples/: the commands of each README, in their order, in a copy of its folder."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import until
from tests.docs.test_examples import ROOT, blocks, run_id_of, typed, up

EXAMPLES = ROOT / "examples"
PROJECTS = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))


@pytest.fixture
def copy_of(tmp_path: Path) -> Any:
    def copied(name: str) -> Path:
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        return tmp_path / name

    return copied


def commands(name: str) -> list[str]:
    [block] = blocks(f"examples/{name}/README.md", "sh")
    return [line for line in block.splitlines() if line]


def options_of(start: str) -> list[str]:
    return start.removeprefix("pyoco-server up ").split()


def pytest_in(folder: Path, line: str) -> str:
    assert line.startswith("python -m pytest -q test_")
    command = [sys.executable, *line.split()[1:], "-p", "no:cacheprovider", "--rootdir", str(folder)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def result_of(run_id: str, port: int, folder: Path) -> Any:
    return json.loads(typed(f"pyoco-client result --run-id {run_id}", port, folder).stdout)


def test_every_project_is_listed_and_tested() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\(\1/README.md\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == PROJECTS
    tested = Path(__file__).read_text()
    assert [name for name in PROJECTS if f'copy_of("{name}")' not in tested] == []


def test_nightly_etl_loads_a_day_once_however_often_it_runs(copy_of: Any) -> None:
    folder, [start, submit, add, listing] = copy_of("nightly_etl"), commands("nightly_etl")
    with up(folder, *options_of(start)) as port:
        for _ in range(2):
            ended = typed(submit, port, folder)
            assert ended.returncode == 0, ended.stderr
            result = result_of(run_id_of(ended.stdout), port, folder)
            assert result == "2026-01-31: 3 orders, 145.00 in total"
        assert typed(add, port, folder).returncode == 0
        assert '"nightly"' in typed(listing, port, folder).stdout
    with closing(sqlite3.connect(folder / "warehouse.db")) as connection:
        rows = connection.execute("SELECT id, cents FROM orders ORDER BY id").fetchall()
    assert rows == [("1001", 1990), ("1002", 500), ("1004", 12010)]


def test_fan_out_counts_every_file_once(copy_of: Any) -> None:
    folder, [start, submit] = copy_of("fan_out"), commands("fan_out")
    with up(folder, *options_of(start)) as port:
        ended = typed(submit, port, folder)
        assert ended.returncode == 0, ended.stderr
        words = result_of(run_id_of(ended.stdout), port, folder)
    assert words == {"the": 12, "run": 6, "worker": 6}


async def test_human_approval_waits_and_pays(copy_of: Any) -> None:
    folder, lines = copy_of("human_approval"), commands("human_approval")
    start, submit, listing, approve, watch, result = lines
    with up(folder, *options_of(start)) as port:
        run_id = run_id_of(typed(submit, port, folder).stdout)
        found: Any = await until(lambda: json.loads(typed(listing, port, folder).stdout)["items"])
        [asked] = found
        assert asked["prompt"] == {"refund": {"order": 7, "amount": 120.5, "limit_exceeded": True}}
        for line in (approve, watch):
            ended = typed(line.replace("<run_id>", run_id), port, folder)
            assert ended.returncode == 0, ended.stderr
        paid = json.loads(typed(result.replace("<run_id>", run_id), port, folder).stdout)
    assert paid == "paid 120.5 for order 7, approved by ann"


def test_idempotent_side_effects_charge_once(copy_of: Any) -> None:
    folder = copy_of("idempotent_side_effects")
    start, submit, test = commands("idempotent_side_effects")
    with up(folder, *options_of(start)) as port:
        ended = typed(submit, port, folder)
        assert ended.returncode == 0, ended.stderr
        run_id = run_id_of(ended.stdout)
        assert result_of(run_id, port, folder) == f"payment-{run_id}-charge: 22.40"
    with closing(sqlite3.connect(folder / "payments.db")) as connection:
        assert connection.execute("SELECT cents FROM payments").fetchall() == [(2240,)]
    assert "1 passed" in pytest_in(folder, test)


def test_testing_a_flow_needs_no_server(copy_of: Any) -> None:
    folder, [test] = copy_of("testing_a_flow"), commands("testing_a_flow")
    assert "7 passed" in pytest_in(folder, test)
