"""docs/concepts/glossary.md: every term has a definition in two languages and code that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/pyoco_server"
# The title and text of each `###` section, without what follows the next heading.
TERMS = re.findall(
    r"^### ([^\n]+)\n(.*?)(?=^##|\Z)",
    (ROOT / "docs/concepts/glossary.md").read_text(encoding="utf-8"),
    re.M | re.S,
)


@pytest.mark.parametrize(("term", "text"), TERMS, ids=[term for term, _ in TERMS])
def test_a_term_is_explained_and_its_code_exists(term: str, text: str) -> None:
    english, _, rest = text.strip().partition("\n\n")
    assert english.endswith(".")
    assert re.search(r"^- .*[\u3040-\u30ff\u4e00-\u9fff].*$", rest, re.M), (
        f"{term} has no Japanese definition"
    )
    places = re.findall(r"`([^`]+)`", rest.partition("- Code: ")[2])
    assert places, f"{term} names no code"
    assert [place for place in places if not _exists(place)] == []


def test_no_term_stands_there_twice() -> None:
    names = [term for term, _ in TERMS]
    assert len(names) == len(set(names))


def _exists(place: str) -> bool:
    file, _, name = place.partition("::")
    path = PACKAGE / file
    return path.is_file() and (not name or name in _names_in(path))


@cache
def _names_in(path: Path) -> frozenset[str]:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, definitions))
