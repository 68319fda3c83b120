"""A program of a user is checked with `mypy --strict`, outside of this repository and its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted(Path(__file__).parent.glob("*.py.txt"))
WRONG = {
    "blocking.py": ('client.submit("hello"', "client.submit(5"),
    "asynchronous.py": ("await run.wait(timeout_sec=60)", 'await run.wait(timeout_sec="a minute")'),
    "testing.py": ('started("a")', "True"),
}


def check(folder: Path, name: str, text: str) -> subprocess.CompletedProcess[str]:
    (folder / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", name]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=170)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name.removesuffix(".py.txt"))
def test_a_program_is_strictly_typed_and_a_wrong_one_is_refused(program: Path, tmp_path: Path) -> None:
    name, text = program.name.removesuffix(".txt"), program.read_text()
    checked = check(tmp_path, name, text)
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stdout + checked.stderr
    right, wrong = WRONG[name]
    assert right in text
    refused = check(tmp_path, name, text.replace(right, wrong))
    assert refused.returncode == 1
    assert name in refused.stdout
