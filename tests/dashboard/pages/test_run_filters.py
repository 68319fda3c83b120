"""Runs: several statuses at once, waiting apart from running, and why a run makes no progress."""

from __future__ import annotations

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit
from tests.dashboard.test_list import submit


def test_waiting_is_a_status_of_its_own_and_statuses_combine(shown: Visit, site: Up) -> None:
    waiting = submit(site, "release", version="9")
    pending = submit(site, "diamond", tag="no-worker-has-this")
    done = submit(site, "diamond")
    httpx.get(f"{site.url}/runs/{done}", params={"wait": 30})
    rows = shown.page.locator(".rows .row")
    shown.open("/runs")
    expect(rows.filter(has_text=waiting[:8]).locator("[data-status=WAITING]")).to_be_visible()
    expect(rows.filter(has_text=waiting[:8])).to_contain_text(shown.word("runs.why.answer", keys="release"))
    expect(rows.filter(has_text=pending[:8])).to_contain_text(
        shown.word("runs.why.noWorker", tag="no-worker-has-this")
    )
    chip = shown.page.locator("[data-count=WAITING]")
    expect(chip.locator("b")).not_to_have_text("0")
    chip.click()
    expect(rows.filter(has_text=waiting[:8])).to_be_visible()
    expect(rows.filter(has_text=pending[:8])).to_have_count(0)
    shown.page.locator("[data-count=PENDING]").click()
    expect(rows.filter(has_text=pending[:8])).to_be_visible()
    expect(rows.filter(has_text=done[:8])).to_have_count(0)
    assert "status=PENDING%2CWAITING" in shown.page.url
    shown.page.reload()
    expect(rows.filter(has_text=waiting[:8])).to_be_visible()
    expect(chip).to_have_attribute("aria-pressed", "true")
    # What leaves the filter leaves the list, and the other way round.
    httpx.post(f"{site.url}/runs/{waiting}/cancel")
    expect(rows.filter(has_text=waiting[:8])).to_have_count(0)
    httpx.post(f"{site.url}/runs/{pending}/cancel")
    expect(rows.filter(has_text=pending[:8])).to_have_count(0)
