"""docs/concepts/reliability.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.test_contract import functions_in

ROOT = Path(__file__).parents[2]
ROWS = [
    line for line in (ROOT / "docs/concepts/reliability.md").read_text().splitlines() if line.startswith("| ")
]


def test_every_promise_names_tests_that_exist() -> None:
    rows = [row for row in ROWS if not row.startswith("| promise")]
    missing = [row for row in rows if not re.search(r"`tests/[^`]+`", row)]
    assert not missing
    named = [test for row in rows for test in re.findall(r"`(tests/[^`]+)`", row)]
    unknown = [test for test in named if not _exists(test)]
    assert not unknown


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    tests = functions_in(ROOT / file) if (ROOT / file).is_file() else frozenset()
    return bool(tests) and (not name or name in tests)
