"""The flows and tests of docs/how-to/testing-flows.md, executed by pytest in an empty folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.test_examples import blocks

PAGE = "docs/how-to/testing-flows.md"


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    for block in blocks(PAGE, "python"):
        name = block.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(block)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "8 passed" in ended.stdout
