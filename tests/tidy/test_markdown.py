"""Markdown wraps at 120 columns, so that a change of a sentence is a small diff; and its prose is plain."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import expect_none, named, tracked_text_files

COLUMNS_MAX = 120

# A newline cannot stand inside these: a row of a table, a code span, the address of a link.
TABLE_ROW = re.compile(r"\s*\|")
CODE_SPAN = re.compile(r"`[^`]*`")
LINE_START = re.compile(r"\s*(?:(?:[-*+]|\d+[.)]|#+|>)\s+)*")

# Each hides who acts, or has a plainer word.
INDEFINITE = re.compile(r"\b(?:whoever|somebody|nobody|anybody|everybody|anew)\b", re.IGNORECASE)
GENERATED = {"docs/reference/configuration.md"}


def test_markdown_wraps_at_120_columns() -> None:
    documents = [path for path in tracked_text_files() if path.suffix == ".md"]
    expect_none(place for path in documents for place in long_lines(path))


def long_lines(path: Path) -> Iterator[str]:
    for number, line in _prose(path.read_text(encoding="utf-8")):
        if columns(line) > COLUMNS_MAX and _can_break(line):
            yield f"{named(path)}:{number} has {columns(line)} columns"


def columns(line: str) -> int:
    """Characters of East Asian scripts take two columns."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


def _prose(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in _lines_outside_code(text) if not TABLE_ROW.match(line))


def _lines_outside_code(text: str) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def _can_break(line: str) -> bool:
    """Whether there is a space in it beside those of code spans and the marker it begins with."""
    words = CODE_SPAN.sub("`", LINE_START.sub("", line, count=1)).split()
    return len(words) > 1


def test_the_check_finds_long_prose_and_nothing_else() -> None:
    word = "x" * COLUMNS_MAX
    found = [line for _, line in _prose(f"a {word}\n| {word} |\n```\na {word}\n```\n") if _can_break(line)]
    assert found == [f"a {word}"]
    assert not _can_break(f"- [{word}]({word})")
    assert not _can_break(f"`a {word}`")
    assert columns("実行 run") == 8


def test_documents_name_who_acts() -> None:
    documents = [
        path for path in tracked_text_files() if path.suffix == ".md" and named(path) not in GENERATED
    ]
    expect_none(place for path in documents for place in indefinite_words(path))


def indefinite_words(path: Path) -> Iterator[str]:
    for number, line in _lines_outside_code(path.read_text(encoding="utf-8")):
        if found := INDEFINITE.search(CODE_SPAN.sub("", line)):
            yield f"{named(path)}:{number} says {found[0]!r}; name the subject, or write 'again'"
