"""Schedules from the page: made for a flow that workers know, seen to run, deleted; refused with a reason."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.cli.programs import Program, Programs, Up, wait_for
from tests.dashboard.browser import Visit
from tests.dashboard.conftest import FLOWS


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


@pytest.fixture
def demo_worker(programs: Programs, site: Up) -> Iterator[Program]:
    """Another worker, of the tag `demo`. The flow `mended` was last run by it."""
    flows = ("--flow-resolver", f"{FLOWS}:resolve", "--concurrency", 1, "--tags", "demo")
    worker = programs.start("pyoco-worker", *flows, "--data-dir", site.data_dir, "--worker-id", "demo-worker")
    wait_for(lambda: len(httpx.get(f"{site.url}/workers").json()) == 2, "both workers")
    body = {"flow_name": "mended", "tag": "demo", "params": {"file": "/"}}
    run_id = httpx.post(f"{site.url}/runs", json=body).json()["run_id"]
    wait_for(lambda: httpx.get(f"{site.url}/runs/{run_id}").json()["status"] == "COMPLETED", "its first run")
    yield worker
    worker.send(signal.SIGTERM)
    worker.ended()
    for one in httpx.get(f"{site.url}/schedules").json():
        httpx.delete(f"{site.url}/schedules/{one['schedule_id']}")


def test_a_schedule_made_from_a_flow_goes_to_the_workers_of_that_flow(
    shown: Visit, site: Up, demo_worker: Program
) -> None:
    shown.open("/flows")
    shown.page.get_by_role("link", name=f"{shown.word('flows.schedule')}: mended", exact=True).click()
    dialog = shown.page.locator("dialog")
    expect(tag_in(shown, dialog)).to_have_value("demo")
    dialog.get_by_label(shown.word("schedules.kind.interval")).check()
    dialog.get_by_label(shown.word("schedules.seconds")).fill("0.5")
    shown.fill_params('{"file": "/"}')
    shown.dialog_button("schedules.make").click()
    expect(dialog).to_have_count(0)
    [made] = httpx.get(f"{site.url}/schedules").json()
    assert made["tag"] == "demo"
    last = wait_for(lambda: schedule(site, made["schedule_id"])["last_run_id"], "its first run")
    wait_for(lambda: httpx.get(f"{site.url}/runs/{last}").json()["status"] == "COMPLETED", "the end of it")


def test_nothing_is_sent_before_it_is_known_which_tags_are_served(in_english: Visit, site: Up) -> None:
    """The flow's last run was for a tag without workers: proposed only while it is not known who there is."""
    served = httpx.get(f"{site.url}/workers").json()[0]["tags"][0]
    body = {"flow_name": "diamond", "tag": "unserved"}
    run_id = httpx.post(f"{site.url}/runs", json=body).json()["run_id"]
    httpx.post(f"{site.url}/runs/{run_id}/cancel").raise_for_status()
    stream = re.compile(r"/stream\?")
    for address, do in (
        ("/flows?start=diamond", "flows.submit.do"),
        ("/schedules?new=1&flow=diamond", "schedules.make"),
    ):
        in_english.page.route(stream, lambda _: None)  # held
        in_english.open(address)
        dialog = in_english.page.locator("dialog")
        expect(dialog.locator("button.main")).to_be_disabled()
        expect(tag_in(in_english, dialog)).to_have_value("unserved")
        in_english.page.unroute(stream)  # which lets go on what was held
        expect(in_english.dialog_button(do)).to_be_enabled()
        expect(tag_in(in_english, dialog)).to_have_value(served)
    # Without a live connection, or with one that brings nothing, a run can be started all the same.
    in_english.page.route(stream, lambda _: None)
    in_english.page.goto("about:blank")
    in_english.open("/flows?start=diamond")
    expect(in_english.page.locator("dialog button.main")).to_be_enabled()
    in_english.page.unroute(stream)
    in_english.page.route(stream, lambda route: route.fulfill(status=422, json={"detail": "no"}))
    in_english.open("/flows?start=diamond")
    expect(in_english.page.locator("dialog button.main")).to_be_enabled()


def test_a_tag_that_no_live_worker_serves_is_said_before_something_waits_for_it(
    shown: Visit, site: Up
) -> None:
    dialog = shown.page.locator("dialog")
    warning = dialog.locator("[data-warning=unserved]")
    for address, anyway in (
        ("/schedules?new=1&flow=diamond", "schedules.makeAnyway"),
        ("/flows?start=diamond", "flows.submit.anyway"),
    ):
        shown.open(address)
        expect(tag_in(shown, dialog)).to_have_value("default")
        expect(warning).to_have_count(0)
        tag_in(shown, dialog).fill("nobody-serves-it")
        expect(warning).to_have_text(shown.word("flows.tag.unserved", tag="nobody-serves-it"))
        expect(shown.dialog_button(anyway)).to_be_visible()


def test_a_flow_whose_tag_is_not_known_says_so_and_sends_the_one_it_shows(shown: Visit, site: Up) -> None:
    shown.open("/schedules?new=1&flow=never-heard-of")
    dialog = shown.page.locator("dialog")
    expect(dialog).to_contain_text(shown.word("flows.tag.unknown", tag="default"))
    expect(tag_in(shown, dialog)).to_have_value("default")
    with shown.page.expect_request("**/schedules") as sent:
        shown.dialog_button("schedules.make").click()
    assert json.loads(sent.value.post_data or "")["tag"] == "default"
    row = shown.page.locator("tr[data-schedule]", has_text="never-heard-of")
    row.get_by_role("button", name=f"{shown.word('schedules.delete')}: never-heard-of").click()
    shown.dialog_button("schedules.delete").click()
    expect(row).to_have_count(0)


def test_a_yaml_that_was_typed_is_still_there_after_a_look_at_the_other_choice(
    in_english: Visit, site: Up
) -> None:
    in_english.open("/schedules?new=1")
    dialog = in_english.page.locator("dialog")
    dialog.get_by_label(in_english.word("schedules.ofYaml")).check()
    dialog.get_by_label("flow.yaml").last.fill("version: 1")
    dialog.get_by_label(in_english.word("schedules.ofFlow")).check()
    dialog.get_by_label(in_english.word("schedules.ofYaml")).check()
    expect(dialog.locator("textarea")).to_have_value("version: 1")


def tag_in(shown: Visit, dialog: Locator) -> Locator:
    return dialog.get_by_label(shown.word("flows.submit.tag"))


def schedule(site: Up, schedule_id: str) -> dict[str, str]:
    listed = httpx.get(f"{site.url}/schedules").json()
    found: dict[str, str] = next(one for one in listed if one["schedule_id"] == schedule_id)
    return found
