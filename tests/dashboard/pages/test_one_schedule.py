"""The page of a schedule: paused, resumed, edited and backfilled, with what happened each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import Visit, visit
from tests.dashboard.test_access import violations

HOURLY = {
    "flow_name": "diamond",
    "interval_seconds": 3600,
    "start_at": "2026-01-01T00:00:00Z",
    "name": "Hourly",
}


@pytest.fixture
def schedules(site: Up) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, timeout=30) as api:
        yield api
        for one in api.get("/schedules").json():
            api.delete(f"/schedules/{one['schedule_id']}")


def made(api: httpx.Client, **more: Any) -> str:
    return str(api.post("/schedules", json=HOURLY | more).raise_for_status().json()["schedule_id"])


def leave(shown: Visit) -> None:
    """The schedule is deleted at the end: a page that shows it would complain that it is gone."""
    shown.page.goto("about:blank")


def test_a_schedule_is_paused_and_resumed(shown: Visit, schedules: httpx.Client) -> None:
    schedule_id = made(schedules)
    shown.open("/schedules")
    shown.page.get_by_role("link", name="Hourly").click()
    expect(shown.page.get_by_role("heading", name="Hourly")).to_be_visible()
    assert violations(shown) == []
    shown.button("schedule.pause").click()
    expect(shown.page.locator(".facts")).to_contain_text(shown.word("schedules.status.PAUSED"))
    assert schedules.get(f"/schedules/{schedule_id}").json()["status"] == "PAUSED"
    instants = shown.page.locator(".facts ol li")
    expect(instants).to_have_count(0)  # nothing is due while it is paused
    shown.button("schedule.resume").click()
    expect(instants).to_have_count(5)
    expect(shown.page.locator(".facts")).to_contain_text(shown.word("schedules.status.ACTIVE"))
    assert schedules.get(f"/schedules/{schedule_id}").json()["status"] == "ACTIVE"
    leave(shown)


def test_a_schedule_is_edited(shown: Visit, schedules: httpx.Client) -> None:
    schedule_id = made(schedules, jitter_seconds=5)
    shown.open(f"/schedules/{schedule_id}")
    shown.button("schedule.edit").click()
    dialog = shown.page.locator("dialog")
    dialog.get_by_label(shown.word("schedule.name")).fill("Each night")
    dialog.get_by_label(shown.word("schedule.overlap")).select_option("queue_one")
    dialog.get_by_label(shown.word("schedule.catchUp")).select_option("all_within")
    dialog.get_by_label(shown.word("schedule.within")).fill("600")
    dialog.get_by_label(shown.word("schedule.changeTime")).check()
    dialog.get_by_label(shown.word("schedules.kind.cron")).check()
    dialog.get_by_label(shown.word("schedules.cron")).fill("30 2 * * *")
    dialog.get_by_label(shown.word("schedules.zone")).fill("Asia/Tokyo")
    assert violations(shown) == []
    shown.dialog_button("schedule.save").click()
    expect(shown.page.get_by_role("heading", name="Each night")).to_be_visible()
    expect(shown.page.locator(".facts")).to_contain_text(shown.word("schedule.overlap.queue_one"))
    edited = schedules.get(f"/schedules/{schedule_id}").json()
    wanted = {"cron": "30 2 * * *", "timezone": "Asia/Tokyo", "overlap": "queue_one", "revision": 2}
    wanted |= {"catch_up": "all_within", "catch_up_within_seconds": 600.0, "jitter_seconds": 5.0}
    assert {name: edited[name] for name in wanted} == wanted
    leave(shown)


def test_past_runs_are_started_and_what_happened_is_listed(shown: Visit, schedules: httpx.Client) -> None:
    schedule_id = made(schedules)
    shown.open(f"/schedules/{schedule_id}")
    expect(shown.page.get_by_text(shown.word("schedule.occurrences.none"))).to_be_visible()
    shown.button("schedule.backfill").click()
    dialog = shown.page.locator("dialog")
    dialog.get_by_label(shown.word("schedule.backfill.from")).fill("2026-02-01T00:00:00")
    dialog.get_by_label(shown.word("schedule.backfill.to")).fill("2026-02-01T01:30:00")
    dialog.get_by_label(shown.word("schedule.backfill.most")).fill("2")
    shown.dialog_button("schedule.backfill.start").click()
    expect(shown.page.locator("tr[data-outcome=started]")).to_have_count(2)
    expect(shown.page.locator(".facts")).to_contain_text(shown.word("schedule.backfill.COMPLETED"))
    wait_for(
        lambda: schedules.get(f"/schedules/{schedule_id}").json()["runs"]["COMPLETED"] == 2,
        "both runs to end",
    )
    shown.page.locator("tr[data-outcome=started] a").first.click()
    shown.status_is("COMPLETED")


def test_what_was_refused_is_said_in_the_form(browser: Browser, site: Up, schedules: httpx.Client) -> None:
    schedule_id = made(schedules)
    with visit(browser, site.url, forgives=lambda said: "status of 409" in said) as shown:
        shown.open(f"/schedules/{schedule_id}")
        shown.button("schedule.edit").click()
        schedules.post(f"/schedules/{schedule_id}/pause").raise_for_status()
        shown.dialog_button("schedule.save").click()
        expect(shown.page.locator("dialog")).to_contain_text("has changed since you read it")
        leave(shown)
