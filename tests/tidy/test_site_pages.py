"""The pages of docs/ and the site: each has its place in the navigation, and links name parts that exist.

The site itself is built by tests/website. This is what can be seen without building it.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from pymdownx.slugs import slugify
from website.pages import CODE_OR_LINK

from tests.tidy.repository import ROOT, expect_none, named

DOCS = ROOT / "docs"
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
NAVIGATION = re.compile(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", re.MULTILINE)


def test_every_page_stands_in_the_navigation_of_the_site() -> None:
    listed = set(NAVIGATION.findall((ROOT / "website" / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    # Decisions have a list of their own; a page in Japanese stands where its English page stands.
    others = {page for page in pages if page.startswith("decisions/") or page.endswith(".ja.md")}
    expect_none(
        f"docs/{page} is not in the nav of website/mkdocs.yml" for page in sorted(pages - others - listed)
    )


def test_every_page_in_japanese_has_its_english_page() -> None:
    pages = sorted(DOCS.rglob("*.ja.md"))
    expect_none(
        f"{named(path)} has no English page"
        for path in pages
        if not path.with_name(path.name.replace(".ja.md", ".md")).exists()
    )


def test_links_to_parts_of_pages_name_headings_that_exist() -> None:
    expect_none(place for path in sorted(DOCS.rglob("*.md")) for place in _missing_parts(path))


def _missing_parts(path: Path) -> Iterator[str]:
    for match in CODE_OR_LINK.finditer(path.read_text(encoding="utf-8")):
        file, _, part = (match[3] or "").partition("#")
        target = path.parent / file if file else path
        if part and target.suffix == ".md" and target.is_file() and part not in _parts(target.resolve()):
            yield f"{named(path)} links to {match[3]}, and the page has no such heading"


@cache
def _parts(path: Path) -> frozenset[str]:
    to_part = slugify(case="lower")
    headings = HEADING.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    return frozenset(to_part(re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading), "-") for heading in headings)


def test_the_configuration_of_the_site_is_strict_and_loads_no_fonts() -> None:
    text = (ROOT / "website" / "mkdocs.yml").read_text(encoding="utf-8")
    settings = yaml.safe_load(re.sub(r"!ENV |!!python\S+ ", "", text))
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
