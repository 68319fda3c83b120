"""The navigation: which pages it offers, and where it shows that one is."""

from __future__ import annotations

import httpx
from playwright.sync_api import Browser, expect

from tests.cli.programs import Up
from tests.dashboard.browser import PHONE, Visit, visit


def test_strategies_are_offered_where_there_is_a_catalogue(in_english: Visit, site: Up) -> None:
    assert httpx.get(f"{site.url}/caller").json()["has_strategies"] is True
    in_english.open("/runs")
    link = in_english.page.locator("nav a[href='#/strategies']")
    expect(link).to_be_visible()
    without = {"tenant_id": None, "id": None, "scopes": None, "cancel_grace_sec": 3, "has_strategies": False}
    in_english.page.route("**/caller", lambda route: route.fulfill(json=without))
    in_english.page.reload()
    expect(in_english.page.locator(".live.good")).to_be_visible()
    expect(link).to_have_count(0)


def test_on_a_phone_the_page_that_is_shown_is_seen_in_the_bar(browser: Browser, site: Up) -> None:
    with visit(browser, site.url, "ja", window=PHONE) as shown:
        shown.open("/system")
        current = shown.page.locator("nav [aria-current=page]")
        expect(current).to_be_in_viewport(ratio=1)
        shown.open("/runs")
        expect(current).to_be_in_viewport(ratio=1)
