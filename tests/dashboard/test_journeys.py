"""What people do with the dashboard, in a real browser, in both languages, on a real stack."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit
from tests.store.fleet.wheel_making import made


def test_start_a_flow_and_watch_it_live(shown: Visit, site: Up, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    shown.start("diamond", json.dumps({"gate": str(gate)}))
    shown.status_is("RUNNING")
    shown.node_is("fetch", "SUCCEEDED")
    shown.node_is("left", "RUNNING")
    shown.node_is("join", "PENDING", "IDLE")
    expect(shown.page.locator(".gantt-bar.attempt[data-status=RUNNING]")).to_have_count(1)
    shown.sees("fetched")
    gate.touch()
    shown.status_is("COMPLETED")
    shown.node_is("join", "SUCCEEDED")
    shown.sees("joined data-left and data-right")
    expect(shown.page.locator(".gantt-bar.attempt[data-status=SUCCEEDED]")).to_have_count(4)


def test_go_back_in_time_with_one_cursor(shown: Visit, site: Up) -> None:
    shown.start("diamond")
    shown.status_is("COMPLETED")
    shown.page.get_by_role("tab", name=shown.word("run.events")).click()
    started = shown.page.locator(".event button", has_text="NODE_STARTED").first
    started.click()
    shown.node_is("fetch", "RUNNING")
    shown.node_is("join", "IDLE")
    expect(shown.page.locator(".gantt-lines span")).to_be_visible()
    shown.button("run.live").click()
    shown.node_is("join", "SUCCEEDED")
    slider = shown.page.get_by_label(shown.word("run.cursor"))
    slider.focus()
    slider.press("Home")
    shown.node_is("fetch", "IDLE")


def test_answer_an_approval_from_the_inbox(shown: Visit, site: Up) -> None:
    run_id = shown.start("release", '{"version": "2.0"}')
    shown.node_is("release", "WAITING")
    expect(shown.page.locator(".side .badge.strong")).to_be_visible()
    shown.open("/approvals")
    card = shown.page.locator(".approval", has_text=run_id[:8])
    expect(card).to_contain_text("Deploy it?")
    expect(card).to_contain_text("shop-2.0.tar.gz")
    card.get_by_label(shown.word("approvals.comment")).fill("tests are green")
    shown.answer(card, "approve")
    expect(card).to_have_count(0)
    shown.open(f"/runs/{run_id}")
    shown.status_is("COMPLETED")
    shown.sees("deploying shop-2.0.tar.gz")


def test_reject_on_the_page_of_the_run(shown: Visit, site: Up) -> None:
    run_id = shown.start("release", '{"version": "2.1"}')
    card = shown.page.locator(".approval")
    card.get_by_role("button", name=shown.word("approvals.more")).click()
    card.get_by_label(shown.word("approvals.payload")).fill("{not json")
    card.get_by_role("button", name=shown.word("approvals.reject")).click()
    expect(card.get_by_role("alert")).to_be_visible()
    card.get_by_label(shown.word("approvals.payload")).fill("")
    card.get_by_label(shown.word("approvals.comment")).fill("not on a Friday")
    shown.answer(card, "reject")
    shown.status_is("FAILED")
    expect(shown.page.locator(".run-error")).to_contain_text("not on a Friday")
    assert shown.run_id == run_id


def test_cancel_a_stubborn_run_and_see_what_became_of_it(shown: Visit, site: Up) -> None:
    shown.start("stubborn")
    shown.status_is("RUNNING")
    shown.sees("I do not listen")
    shown.page.keyboard.press("c")
    shown.dialog_button("cancel.do").click()
    shown.status_is("CANCELLING")
    expect(shown.page.locator(".live-cancel progress")).to_be_visible()
    shown.status_is("CANCELLED")
    expect(shown.page.locator(".cancel-story")).to_contain_text("ignore_everything")


def test_retry_from_the_failed_task(shown: Visit, site: Up, tmp_path: Path) -> None:
    missing = tmp_path / "wanted.txt"
    first = shown.start("mended", json.dumps({"file": str(missing)}))
    shown.status_is("FAILED")
    expect(shown.page.locator(".run-error")).to_contain_text("needs_file")
    missing.touch()
    shown.button("run.retryFailed").click()
    shown.page.wait_for_url(lambda url: first not in url)
    shown.status_is("COMPLETED")
    # What had succeeded was taken over: it began nothing here.
    records = httpx.get(f"{site.url}/runs/{shown.run_id}", params={"include": "records"}).json()
    assert records["retry_of"] == first
    shown.node_is("needs_file", "SUCCEEDED")


def test_redrive_a_dead_letter(shown: Visit, site: Up) -> None:
    submitted = httpx.post(f"{site.url}/runs", json={"flow_name": "nobody-knows-it"}).json()["run_id"]
    shown.open("/dlq")
    row = shown.page.locator("tr", has_text=submitted[:8])
    expect(row).to_contain_text(shown.word("dlq.why.flow_not_found"))
    row.get_by_role("button", name=shown.word("dlq.look")).click()
    expect(shown.page.locator("dialog")).to_contain_text(submitted)
    shown.page.keyboard.press("Escape")
    row.get_by_role("button", name=shown.word("dlq.redrive")).click()
    shown.page.locator("dialog").get_by_role("button", name=shown.word("dlq.redriveDo", n=1)).click()
    again = row.get_by_role("link", name=shown.word("dlq.redriven"))
    again.click()
    shown.status_is("FAILED")
    assert shown.run_id != submitted


def test_upload_a_wheel_and_see_workers_take_it(shown: Visit, site: Up, tmp_path: Path) -> None:
    wheel = made(tmp_path, f"seen_in_{shown.language}", "1.0")
    shown.open("/wheels")
    shown.button("wheels.upload").click()
    shown.page.locator("dialog input[type=file]").set_input_files(wheel)
    shown.dialog_button("wheels.do").click()
    row = shown.page.locator("tr", has_text=wheel.name).first
    expect(row).to_contain_text(shown.word("wheels.inUseOn", n=1, all=1))
    shown.open("/workers")
    expect(shown.page.locator("tbody tr").first).to_contain_text(f"seen-in-{shown.language} 1.0")


def test_hide_a_worker_and_show_it_again(shown: Visit, site: Up) -> None:
    shown.open("/workers")
    row = shown.page.locator("tbody tr[data-worker]")
    expect(row).to_have_count(1)
    row.get_by_role("button", name=shown.word("workers.hide")).click()
    expect(row).to_have_count(0)
    shown.page.get_by_label(shown.word("workers.withHidden")).check()
    expect(row).to_contain_text(shown.word("workers.hidden"))
    row.get_by_role("button", name=shown.word("workers.show")).click()
    shown.page.get_by_label(shown.word("workers.withHidden")).uncheck()
    expect(row).to_have_count(1)


def test_recheck_strategies_with_progress(shown: Visit, site: Up) -> None:
    shown.open("/strategies")
    row = shown.page.locator("tr[data-strategy='one.fast']")
    row.get_by_role("checkbox").check()
    shown.button("strategies.recheck", n=1).click()
    shown.dialog_button("strategies.estimate").click()
    expect(shown.page.locator("dialog")).to_contain_text(
        shown.word("strategies.estimated", strategies=1, batches=1)
    )
    shown.dialog_button("strategies.start").click()
    request = shown.page.locator("[data-request]")
    expect(request).to_contain_text(shown.word("strategies.progress", done=1, all=1))
    expect(row).to_contain_text(shown.word("strategies.health.healthy"))
