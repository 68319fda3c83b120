"""The page of a flow: its tasks and parameters, how its runs went, what starts it and who executes it."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.cli.programs import Up
from tests.dashboard.browser import PHONE, Visit, visit
from tests.dashboard.test_access import violations
from tests.dashboard.test_list import submit


def ended(site: Up, run_id: str) -> str:
    return str(httpx.get(f"{site.url}/runs/{run_id}", params={"wait": 30}).json()["status"])


def card(shown: Visit, key: str) -> Locator:
    return shown.page.get_by_role("region", name=shown.word(key), exact=True)


def test_a_flow_has_a_page_with_all_that_belongs_to_it(shown: Visit, site: Up) -> None:
    done = submit(site, "levels")
    failed = submit(site, "levels", fail=True)
    assert [ended(site, one) for one in (done, failed)] == ["COMPLETED", "FAILED"]
    cancelled = submit(site, "levels", tag="nobody-takes-this")
    httpx.post(f"{site.url}/runs/{cancelled}/cancel").raise_for_status()
    body = {"flow_name": "levels", "cron": "30 8 * * mon-fri", "timezone": "Asia/Tokyo"}
    schedule = httpx.post(f"{site.url}/schedules", json=body).json()["schedule_id"]
    shown.open("/flows")
    shown.page.get_by_role("link", name="levels", exact=True).click()
    expect(shown.page.get_by_role("heading", level=1)).to_have_text("levels")
    # The graph of the latest run that has started.
    shown.node_is("report", "FAILED")
    shown.node_is("publish", "SKIPPED")
    params = card(shown, "flow.params").first
    expect(params.locator("[data-param=size]")).to_contain_text("int")
    expect(params.locator("[data-param=size]")).to_contain_text("3")
    # A cancelled run is drawn, and is no failure.
    trend = card(shown, "flow.trend")
    expect(trend.locator("[data-bar=COMPLETED]").first).to_be_visible()
    expect(trend.locator("[data-bar=CANCELLED]").first).to_be_visible()
    runs = httpx.get(f"{site.url}/runs", params={"flow": "levels", "limit": 60}).json()
    good = sum(run["status"] == "COMPLETED" for run in runs)
    judged = good + sum(run["status"] == "FAILED" for run in runs)
    expect(trend).to_contain_text(shown.word("flow.rateOf", good=good, judged=judged))
    expect(card(shown, "flow.runs").locator(f"[data-run='{failed}']")).to_be_visible()
    expect(card(shown, "flow.schedules").first).to_contain_text("08:30")
    worker = httpx.get(f"{site.url}/workers").json()[0]["worker_id"]
    expect(card(shown, "flow.workers").locator(f"[data-worker='{worker}']")).to_contain_text("default")
    assert violations(shown) == []
    # It is live: a run that begins elsewhere appears.
    later = submit(site, "levels")
    expect(card(shown, "flow.runs").locator(f"[data-run='{later}']")).to_be_visible()
    trend.locator("[data-bar=FAILED]").last.click()
    shown.status_is("FAILED")
    shown.page.go_back()
    expect(trend).to_be_visible()
    httpx.delete(f"{site.url}/schedules/{schedule}")


def test_the_name_of_a_flow_leads_to_its_page(in_english: Visit, site: Up) -> None:
    run_id = submit(site, "described", day="Monday")
    body = {"flow_name": "described", "run_at": "2100-01-01T00:00:00Z"}
    schedule = httpx.post(f"{site.url}/schedules", json=body).json()["schedule_id"]
    heading = in_english.page.get_by_role("heading", level=1)
    for address in (f"/runs/{run_id}", "/schedules", "/flows"):
        in_english.open(address)
        in_english.page.get_by_role("link", name="described", exact=True).first.click()
        expect(heading).to_have_text("described")
        assert in_english.page.url.endswith("#/flows/described")
    in_english.open("/runs")
    row = in_english.page.locator(".rows .row", has_text=run_id[:8])
    row.get_by_role("link", name=in_english.word("flow.open", flow="described")).click()
    expect(heading).to_have_text("described")
    in_english.page.get_by_role("link", name=in_english.word("flow.allRuns")).click()
    expect(in_english.page.locator(".rows .row", has_text=run_id[:8])).to_be_visible()
    httpx.delete(f"{site.url}/schedules/{schedule}")


def test_a_flow_that_is_not_known_and_one_that_was_never_run(shown: Visit, site: Up) -> None:
    shown.open("/flows/no-such-flow")
    expect(shown.page.locator(".empty")).to_contain_text(shown.word("flow.none.title", flow="no-such-flow"))
    shown.open("/flows/chatty")
    runs = httpx.get(f"{site.url}/runs", params={"flow": "chatty"}).json()
    expect(card(shown, "flow.params").first).to_contain_text("lines")
    if not runs:
        expect(card(shown, "flow.graph")).to_contain_text(shown.word("flow.graphNone"))
        expect(card(shown, "flow.runs")).to_contain_text(shown.word("flow.noRuns"))


def test_a_name_with_odd_characters_has_a_page(in_english: Visit, site: Up) -> None:
    name = "a/b c?d=1&é " + "long-name-" * 15
    run_id = submit(site, name, tag="nobody-takes-this")
    in_english.open(f"/runs/{run_id}")
    in_english.page.get_by_role("heading", level=1).get_by_role("link").click()
    expect(in_english.page.get_by_role("heading", level=1)).to_have_text(name.strip())
    expect(card(in_english, "flow.runs").locator(f"[data-run='{run_id}']")).to_be_visible()
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not in_english.page.evaluate(wide)
    httpx.post(f"{site.url}/runs/{run_id}/cancel")


@pytest.mark.parametrize("status", [403, 500])
def test_what_cannot_be_read_is_said_and_read_again(browser: Browser, site: Up, status: int) -> None:
    with visit(browser, site.url, forgives=lambda said: f"status of {status}" in said) as shown:
        page = shown.page
        page.route("**/flows", lambda route: route.fulfill(status=status, json={"detail": "not now"}))
        shown.open("/flows/diamond")
        expect(page.get_by_role("alert").first).to_contain_text("not now")
        page.unroute("**/flows")
        page.get_by_role("button", name=shown.word("do.again")).first.click()
        expect(card(shown, "flow.params").first).to_contain_text("gate")


def test_the_page_fits_a_phone(browser: Browser, site: Up) -> None:
    ended(site, submit(site, "levels"))
    with visit(browser, site.url, "ja", window=PHONE, theme="dark") as shown:
        shown.open("/flows/levels")
        expect(card(shown, "flow.trend")).to_be_visible()
        expect(shown.page.locator(".node").first).to_be_visible()
        assert violations(shown) == []
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not shown.page.evaluate(wide)
