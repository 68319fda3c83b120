"""Schedules: when they are due in words and instants, how the last run went, and one more run now."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import Visit, catalogue, visit
from tests.dashboard.test_access import violations

DAILY = {"flow_name": "diamond", "cron": "30 8 * * mon-fri", "timezone": "Asia/Tokyo"}
WORDS = {"en": "At 08:30, Monday to Friday", "ja": "月曜日から金曜日 08:30"}


@pytest.fixture
def schedules(site: Up) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, timeout=30) as api:
        yield api
        for one in api.get("/schedules").json():
            api.delete(f"/schedules/{one['schedule_id']}")


def row_of(shown: Visit, schedule_id: str) -> Locator:
    return shown.page.locator(f"tr[data-schedule='{schedule_id}']")


def test_a_row_says_when_in_words_and_the_next_five_times(shown: Visit, schedules: httpx.Client) -> None:
    made = schedules.post("/schedules", json=DAILY).json()
    shown.open("/schedules")
    row = row_of(shown, made["schedule_id"])
    expect(row).to_contain_text(WORDS[shown.language])
    expect(row).to_contain_text("30 8 * * mon-fri")
    expect(row.locator(".upcoming li")).to_have_count(5)
    expect(row.locator(".upcoming li").first).not_to_be_visible()
    row.locator("summary").click()
    expect(row.locator(".upcoming li").last).to_be_visible()
    expect(row.locator(".upcoming li").first).to_contain_text("8:30:00")
    expect(row.locator(".upcoming li").first).to_contain_text("Asia/Tokyo")
    assert violations(shown) == []


def test_one_more_run_is_started_now_and_the_next_time_stays(shown: Visit, schedules: httpx.Client) -> None:
    made = schedules.post("/schedules", json=DAILY).json()
    shown.open("/schedules")
    name = f"{shown.word('schedules.run')}: diamond"
    row_of(shown, made["schedule_id"]).get_by_role("button", name=name).click()
    shown.status_is("COMPLETED")
    run = schedules.get(f"/runs/{shown.run_id}").json()
    assert run["schedule_id"] == made["schedule_id"]
    [listed] = schedules.get("/schedules").json()
    assert listed["next_at"] == made["next_at"]


def test_the_last_run_is_shown_with_how_it_ended(in_english: Visit, schedules: httpx.Client) -> None:
    body = {"flow_name": "mended", "params": {"file": "/no/such/file"}, "interval_seconds": 0.5}
    made = schedules.post("/schedules", json=body).json()
    in_english.open("/schedules")
    row = row_of(in_english, made["schedule_id"])
    expect(row.locator("[data-status=FAILED]")).to_be_visible()
    row.locator("a", has=in_english.page.locator("[data-status]")).click()
    assert schedules.get(f"/runs/{in_english.run_id}").json()["schedule_id"] == made["schedule_id"]


def test_the_form_shows_what_an_expression_means_while_it_is_typed(shown: Visit, site: Up) -> None:
    shown.open("/schedules?new=1&flow=diamond")
    dialog = shown.page.locator("dialog")
    cron = dialog.get_by_label(shown.word("schedules.cron"))
    cron.fill("30 8 * * mon-fri")
    expect(dialog.locator(".preview .words")).to_have_text(WORDS[shown.language])
    expect(dialog.locator(".preview li")).to_have_count(5)
    cron.fill("61 * * * *")
    expect(dialog.get_by_role("alert")).to_contain_text("0 to 59")
    expect(cron).to_have_attribute("aria-invalid", "true")
    cron.fill("0 9 * * mon")
    expect(dialog.get_by_role("alert")).to_have_count(0)
    dialog.get_by_label(shown.word("schedules.zone")).fill("Nowhere/At_All")
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label(shown.word("schedules.kind.once")).check()
    dialog.get_by_label(shown.word("schedules.at")).fill("2100-01-31T08:00:00")
    expect(dialog.locator(".preview li")).to_have_count(1)


def test_the_time_zone_of_the_browser_is_proposed(browser: Browser, site: Up) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo", locale="en")
    page = context.new_page()
    page.goto(f"{site.url}/#/schedules?new=1&flow=diamond")
    expect(page.locator("dialog").get_by_label(catalogue("en")["schedules.zone"])).to_have_value("Asia/Tokyo")
    context.close()


def test_another_run_of_a_schedule_that_was_deleted_is_refused_in_words(
    browser: Browser, site: Up, schedules: httpx.Client
) -> None:
    made = schedules.post("/schedules", json=DAILY).json()
    with visit(browser, site.url, forgives=lambda said: "status of 404" in said) as shown:
        shown.open("/schedules")
        row = row_of(shown, made["schedule_id"])
        expect(row).to_be_visible()
        gone = {"detail": "There is no such schedule."}
        shown.page.route("**/run", lambda route: route.fulfill(status=404, json=gone))
        row.get_by_role("button", name=shown.word("schedules.run")).click()
        expect(shown.page.locator(".toast.bad")).to_contain_text("There is no such schedule.")
        wait_for(lambda: "#/schedules" in shown.page.url, "the page to stay")
