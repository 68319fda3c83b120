"""A page in Japanese says what its English page says: the same sections, code, tables, names and links.

Change both together: a section, a row, a name or a link that only one of them has fails here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT

# Each of its terms has a definition in both languages; test_glossary checks that.
IN_BOTH_LANGUAGES = {"docs/concepts/glossary.md"}
TRANSLATED = ("docs/concepts", "docs/tutorial")

CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(<?([^)\s>#]*)[^)]*\)|<(https?://[^>]+)>")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")

PAIRS = sorted(
    (path.with_name(path.name.replace(".ja.md", ".md")), path)
    for path in (*ROOT.glob("*.ja.md"), *ROOT.glob("docs/**/*.ja.md"))
)


def test_tutorial_and_concepts_are_in_japanese() -> None:
    pages = [path for folder in TRANSLATED for path in sorted((ROOT / folder).glob("*.md"))]
    english = {path.relative_to(ROOT).as_posix() for path in pages if not path.name.endswith(".ja.md")}
    japanese = {japanese.relative_to(ROOT).as_posix() for _, japanese in PAIRS}
    assert {page.replace(".md", ".ja.md") for page in english - IN_BOTH_LANGUAGES} - japanese == set()


@pytest.mark.parametrize(("english", "japanese"), PAIRS, ids=[pair[0].name for pair in PAIRS])
def test_both_pages_have_the_same_parts(english: Path, japanese: Path) -> None:
    for there, here in zip(sections(english), sections(japanese), strict=True):
        assert list(shape(here)) == list(shape(there)), f"shape of {title(there)}"
        assert names(here) == names(there), f"code in the text of {title(there)}"
        assert links(here) == links(there), f"links of {title(there)}"


def sections(path: Path) -> list[list[str]]:
    """The lines of each section, from its heading on. A line of a code block is no heading."""
    found: list[list[str]] = [[]]
    is_code = False
    for line in path.read_text(encoding="utf-8").splitlines():
        is_code ^= line.lstrip().startswith("```")
        if line.startswith("#") and not is_code:
            found.append([])
        found[-1].append(line)
    return found


def title(section: list[str]) -> str:
    return section[0] if section else "the beginning"


def shape(section: list[str]) -> Iterator[str]:
    """One word for each heading, paragraph and item; rows of tables with their columns; code as it is."""
    is_code, before = False, ""
    for line in section:
        text = line.strip()
        if text.startswith("```"):
            is_code = not is_code
            yield text
        elif is_code:
            yield line
        elif text.startswith("#"):
            yield text.partition(" ")[0]
        elif text.startswith("|"):
            yield f"row of {len(cells(text))}"
        elif ITEM.match(text):
            yield "item"
        elif text and not before:
            yield "paragraph"
        before = "" if text.startswith("|") else text


def cells(row: str) -> list[str]:
    return re.split(r"(?<!\\)\|", CODE_SPAN.sub("code", row).strip("|"))


def prose(section: list[str]) -> str:
    return re.sub(r"^ *```.*?^ *```", "", "\n".join(section), flags=re.MULTILINE | re.DOTALL)


def names(section: list[str]) -> set[str]:
    return set(CODE_SPAN.findall(prose(section).replace("\n", " ")))


def links(section: list[str]) -> Counter[str]:
    """Without the line at the top that leads to the other language."""
    text = re.sub(r"^(?:日本語|English): .*$", "", prose(section), flags=re.MULTILINE)
    found = (one or other for one, other in LINK.findall(text))
    return Counter(address.replace(".ja.md", ".md") for address in found if address)


def test_the_check_finds_a_section_a_name_and_a_link_that_one_page_lacks(tmp_path: Path) -> None:
    page = "# A\n\nText with `code` and [a link](b.md#part).\n\n- one\n\n```sh\nls\n```\n"
    (tmp_path / "a.md").write_text(page)
    for changed in ("`code`", "[a link](b.md#part)", "\n- one", "ls", "# A"):
        (tmp_path / "a.ja.md").write_text(page.replace(changed, ""))
        with pytest.raises((AssertionError, ValueError)):
            test_both_pages_have_the_same_parts(tmp_path / "a.md", tmp_path / "a.ja.md")
    (tmp_path / "a.ja.md").write_text(page.replace("Text with", "文").replace("a link", "リンク"))
    test_both_pages_have_the_same_parts(tmp_path / "a.md", tmp_path / "a.ja.md")
