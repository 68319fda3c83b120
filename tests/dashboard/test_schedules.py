"""Schedules from the page: made for a flow that workers know, seen to run, deleted; refused with a reason."""

from __future__ import annotations

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit


def test_a_flow_is_scheduled_runs_and_is_stopped(shown: Visit, site: Up) -> None:
    shown.open("/flows")
    shown.page.get_by_role("link", name=f"{shown.word('flows.schedule')}: diamond", exact=True).click()
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_label(shown.word("flows.submit.flow"))).to_have_value("diamond")
    dialog.get_by_label(shown.word("schedules.cron")).fill("every day")
    shown.dialog_button("schedules.make").click()
    expect(dialog.get_by_role("alert")).to_contain_text("five fields")
    dialog.get_by_label(shown.word("schedules.kind.interval")).check()
    dialog.get_by_label(shown.word("schedules.seconds")).fill("0.5")
    shown.dialog_button("schedules.make").click()
    row = shown.page.locator("tr[data-schedule]", has_text="diamond")
    expect(row).to_contain_text(shown.word("schedules.status.ACTIVE"))
    # It is told that it ran: nobody has to read the page again.
    last = row.locator("a[href^='#/runs/']")
    expect(last).to_be_visible()
    row.get_by_role("button", name=f"{shown.word('schedules.delete')}: diamond").click()
    shown.dialog_button("schedules.delete").click()
    expect(row).to_have_count(0)
    assert httpx.get(f"{site.url}/schedules").json() == []


def test_a_flow_yaml_is_scheduled_once(in_english: Visit, site: Up) -> None:
    in_english.open("/schedules?new=1")
    dialog = in_english.page.locator("dialog")
    dialog.get_by_label(in_english.word("schedules.ofYaml")).check()
    dialog.get_by_label(in_english.word("flows.submit.flow")).fill("yearly")
    dialog.get_by_label(in_english.word("schedules.kind.once")).check()
    dialog.get_by_label(in_english.word("schedules.at")).fill("2100-01-31T08:00:00")
    in_english.dialog_button("schedules.make").click()
    row = in_english.page.locator("tr[data-schedule]", has_text="yearly")
    expect(row).to_contain_text(in_english.word("schedules.once"))
    [made] = httpx.get(f"{site.url}/schedules").json()
    assert made["workflow_yaml_sha256"]
    # Another window deletes it, and it goes here too.
    httpx.delete(f"{site.url}/schedules/{made['schedule_id']}")
    expect(row).to_have_count(0)
