"""docs/concepts/comparison.md: every statement about another system has its source, an official page."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from tests.tidy.repository import ROOT

PAGES = ("docs/concepts/comparison.md", "docs/concepts/comparison.ja.md")
OFFICIAL = {
    "Temporal": {"docs.temporal.io"},
    "Prefect": {"docs.prefect.io", "www.prefect.io"},
    "Airflow": {"airflow.apache.org", "github.com/apache/airflow"},
    "Celery": {"docs.celeryq.dev"},
    "Restate": {"docs.restate.dev"},
    "DBOS": {"docs.dbos.dev"},
}
LINK = re.compile(r"\]\(([^)]+)\)")
ROW = re.compile(r"^\| (?:\[)?(\w+)(?:\]\([^)]+\))? \|.*\|$", re.MULTILINE)


def rows(page: str) -> list[tuple[str, str]]:
    """The system and the whole row, of the tables of the page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(match[1], match[0]) for match in ROW.finditer(text) if match[1] in OFFICIAL]


@pytest.mark.parametrize("page", PAGES)
def test_every_row_about_another_system_links_its_documentation(page: str) -> None:
    found = rows(page)
    assert len(found) >= 6 * len(OFFICIAL)
    for system, row in found:
        sources = [
            link for link in LINK.findall(row.rstrip("|").rpartition(" | ")[2] or row) if "://" in link
        ]
        if not sources:  # of the first table: its link is the name of the system
            sources = [link for link in LINK.findall(row) if "://" in link]
        assert sources, row
        assert [link for link in sources if not is_official(system, link)] == [], row


def is_official(system: str, link: str) -> bool:
    parts = urlsplit(link)
    return parts.scheme == "https" and any(
        f"{parts.netloc}{parts.path}".startswith(place) for place in OFFICIAL[system]
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_table_has_every_system(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    tables = [part for part in re.split(r"^## ", text, flags=re.MULTILINE) if "\n|---" in part]
    assert len(tables) == 7
    for table in tables:
        named = {system for system in OFFICIAL if re.search(rf"^\| \[?{system}\b", table, re.MULTILINE)}
        assert named == OFFICIAL.keys(), table.partition("\n")[0]


def test_a_row_without_a_source_is_found() -> None:
    assert not is_official("Celery", "https://example.org/celery")
    assert is_official("Celery", "https://docs.celeryq.dev/en/stable/glossary.html")
