"""Tables: rows are cards on a phone, and nothing is cut. Elsewhere columns are aligned with their heads."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import PHONE, visit
from tests.dashboard.test_list import submit

LONG = "a-name-that-is-much-longer-than-the-screen-of-a-phone-is-wide-" + "x" * 60

# Of each table that is shown: how much wider it is than its box, and cells that go beyond the screen.
TOO_WIDE = """() => [...document.querySelectorAll('.table-box')].flatMap((box) => [
  ...(box.scrollWidth > box.clientWidth + 1 ? [`${box.getAttribute('aria-label')} scrolls`] : []),
  ...[...box.querySelectorAll('td')]
    .filter((cell) => cell.getBoundingClientRect().right > innerWidth + 1)
    .map((cell) => cell.textContent),
])"""
# The label of each value, and the head of its column.
LABELS = """() => [...document.querySelectorAll('.table-box tbody td')]
  .filter((cell) => cell.colSpan === 1)
  .map((cell) => [
    cell.dataset.label,
    (cell.closest('table').tHead.rows[0].cells[cell.cellIndex].textContent ?? '').trim(),
  ])"""

# Values that do not begin where the head of their column begins, by pixels.
BESIDE_HEADS = """() => [...document.querySelectorAll('.table-box tbody tr:first-child td')]
  .filter((cell) => cell.colSpan === 1)
  .map((cell) => [cell, cell.closest('table').tHead.rows[0].cells[cell.cellIndex]])
  .map(([cell, head]) => [
    cell.textContent,
    Math.round(cell.getBoundingClientRect().left - head.getBoundingClientRect().left),
    cell.getBoundingClientRect().top >= head.getBoundingClientRect().bottom - 1,
  ])
  .filter(([, apart, isBelow]) => apart !== 0 || !isBelow)"""


@pytest.fixture(scope="module")
def filled(site: Up) -> Up:
    """Something in every table, with a long name."""
    failed = submit(site, "there-is-no-such-flow")
    httpx.get(f"{site.url}/runs/{failed}", params={"wait": 30})
    submit(site, LONG, tag="no-worker")
    body = {"flow_name": LONG, "cron": "30 2 * * *", "timezone": "UTC", "tag": "no-worker"}
    httpx.post(f"{site.url}/schedules", json=body).raise_for_status()
    wait_for(lambda: httpx.get(f"{site.url}/dlq").json(), "a dead letter")
    return site


@pytest.mark.parametrize("page", ["workers", "flows", "schedules", "dlq", "strategies", "system"])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_rows_are_cards_with_labels_and_fit_the_screen(
    browser: Browser, filled: Up, page: str, language: str
) -> None:
    with visit(browser, filled.url, language, window=PHONE) as shown:
        shown.open(f"/{page}")
        expect(shown.page.locator(".table-box tbody td").first).to_be_visible()
        expect(shown.page.locator(".live.good")).to_be_visible()
        assert shown.page.evaluate(TOO_WIDE) == []
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        labels = shown.page.evaluate(LABELS)
        assert labels
        assert [label for label, head in labels if label not in (head, "")] == []
        assert any(label for label, _ in labels)


@pytest.mark.parametrize("page", ["workers", "flows", "schedules", "dlq", "strategies", "system"])
def test_values_are_below_the_heads_of_their_columns(browser: Browser, filled: Up, page: str) -> None:
    with visit(browser, filled.url, "en") as shown:
        shown.open(f"/{page}")
        expect(shown.page.locator(".table-box tbody td").first).to_be_visible()
        assert shown.page.evaluate(BESIDE_HEADS) == []
