"""Who cancelled, approved or rejected, and why, is on the page of the run; skipped is not cancelled."""

from __future__ import annotations

import httpx
from playwright.sync_api import Locator, expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit
from tests.dashboard.run.test_log_view import ended_run


def card(shown: Visit) -> Locator:
    return shown.page.locator(".approval")


def test_the_comment_of_an_approval_is_shown(shown: Visit, site: Up) -> None:
    shown.start("release", '{"version": "4.0"}')
    card(shown).get_by_label(shown.word("approvals.comment")).fill("tests are green")
    shown.answer(card(shown), "approve")
    shown.status_is("COMPLETED")
    answer = shown.page.locator("[data-answer=release]")
    expect(answer).to_contain_text(shown.word("status.APPROVED"))
    expect(answer).to_contain_text("tests are green")


def test_a_rejection_is_shown_as_a_rejection(shown: Visit, site: Up) -> None:
    shown.start("release", '{"version": "4.1"}')
    card(shown).get_by_label(shown.word("approvals.comment")).fill("not on a Friday")
    shown.answer(card(shown), "reject")
    shown.status_is("FAILED")
    expect(shown.page.locator(".run-error strong")).to_have_text(shown.word("run.rejected", task="release"))
    expect(shown.page.locator(".run-error")).to_contain_text("not on a Friday")
    shown.node_is("release", "REJECTED")
    shown.node_is("deploy", "SKIPPED")
    expect(shown.page.locator("[data-answer=release]")).to_contain_text(shown.word("status.REJECTED"))
    # The same at an earlier moment: the last event but one is before the end of the run.
    shown.page.get_by_role("tab", name=shown.word("run.events")).click()
    shown.page.locator(".event button", has_text="NODE_FAILED").click()
    shown.node_is("release", "REJECTED")


def test_the_reason_of_a_cancel_is_shown_and_no_result_is_claimed(shown: Visit, site: Up) -> None:
    run_id = str(httpx.post(f"{site.url}/runs", json={"flow_name": "heedful"}).json()["run_id"])
    shown.open(f"/runs/{run_id}")
    shown.sees("ticking")
    shown.button("do.cancel").click()
    shown.page.locator("dialog").get_by_label(shown.word("cancel.reason")).fill("wrong day")
    shown.dialog_button("cancel.do").click()
    expect(shown.page.locator(".cancel-story")).to_contain_text("wrong day")
    shown.status_is("CANCELLED")
    shown.node_is("tick", "CANCELLED")
    shown.sees("task tick returned after the cancel request; its result is not recorded")
    expect(shown.page.locator(".log-lines")).not_to_contain_text("succeeded in")
    assert httpx.get(f"{site.url}/runs/{run_id}").json()["cancel_reason"] == "wrong day"


def test_a_task_that_did_not_run_because_another_failed_is_skipped(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site, fail=True)}")
    shown.node_is("report", "FAILED")
    shown.node_is("publish", "SKIPPED")
    shown.page.locator('.node[data-node="publish"]').click()
    shown.page.get_by_role("tab", name=shown.word("run.details")).click()
    details = shown.page.get_by_role("region", name=shown.word("run.task", task="publish"))
    expect(details).to_contain_text(shown.word("status.SKIPPED"))
