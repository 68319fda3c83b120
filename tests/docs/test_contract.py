"""docs/reference/contract.md names what there is: every id of the specification, its code and its tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/reference/contract.md").read_text().splitlines()
    if line.startswith(("| REQ", "| ERR", "| EXE-", "| JOB-", "| PDCA-"))
]


def test_every_id_of_the_specification_has_its_row() -> None:
    wanted = [f"REQ-{number:04}" for number in range(1, 27)]
    wanted += [f"ERR-PYOCO-{number:04}" for number in range(1, 25)]
    assert [row[0] for row in ROWS if row[0].startswith(("REQ", "ERR"))] == wanted


@pytest.mark.parametrize(
    ("prefix", "sections"),
    [("EXE", range(1, 9)), ("JOB", range(1, 11)), ("PDCA", (1, *range(3, 13), 14))],
)
def test_every_section_with_something_to_check_has_its_row(prefix: str, sections: Iterable[int]) -> None:
    numbers = [int(row[0].partition("-")[2]) for row in ROWS if row[0].startswith(prefix)]
    assert numbers == list(sections)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_names_exists(row: list[str]) -> None:
    _, _, code, tests = row
    places, held_by = re.findall("`([^`]+)`", code), re.findall("`([^`]+)`", tests)
    assert places
    assert held_by
    for place in places:
        assert (ROOT / "src/pyoco_server" / place).is_file(), place
    for test in held_by:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), test
        assert functions_in(ROOT / file), f"{file} has no test in it"
        assert not name or name in functions_in(ROOT / file), test


@cache
def functions_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))
