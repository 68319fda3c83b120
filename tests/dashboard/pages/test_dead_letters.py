"""Dead letters: what could not be delivered or started, dismissed with a note, counted in the navigation."""

from __future__ import annotations

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit


def submitted(site: Up, flow: str, **params: object) -> str:
    run_id = str(httpx.post(f"{site.url}/runs", json={"flow_name": flow, "params": params}).json()["run_id"])
    assert httpx.get(f"{site.url}/runs/{run_id}", params={"wait": 30}).json()["status"] == "FAILED"
    return run_id


def test_a_failed_run_is_no_dead_letter_and_one_that_no_worker_could_start_is(shown: Visit, site: Up) -> None:
    failed = submitted(site, "mended", file="/nowhere/at/all")
    unknown = submitted(site, f"unheard-of-{shown.language}")
    shown.open("/dlq")
    row = shown.page.locator("tr[data-letter]", has_text=unknown[:8])
    expect(row).to_contain_text(shown.word("dlq.why.flow_not_found"))
    expect(shown.page.locator("tr[data-letter]", has_text=failed[:8])).to_have_count(0)


def test_a_letter_is_dismissed_with_a_note_and_leaves_the_count(shown: Visit, site: Up) -> None:
    unknown = submitted(site, f"unheard-of-{shown.language}")
    shown.open("/dlq")
    row = shown.page.locator("tr[data-letter]", has_text=unknown[:8])
    expect(row).to_be_visible()
    badge = shown.page.locator('.side a[href="#/dlq"] .badge')
    expect(badge).to_be_visible()
    before = int(badge.inner_text())
    row.get_by_role("button", name=shown.word("dlq.dismiss")).click()
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_label(shown.word("dlq.note"))).to_be_focused()
    dialog.get_by_label(shown.word("dlq.note")).fill("the worker was too old")
    shown.dialog_button("dlq.dismiss").click()
    expect(row).to_have_count(0)
    if before == 1:
        expect(badge).to_have_count(0)
    else:
        expect(badge).to_have_text(str(before - 1))
    shown.page.get_by_label(shown.word("dlq.withDismissed")).check()
    expect(row).to_contain_text("the worker was too old")
    row.get_by_role("button", name=shown.word("dlq.look")).click()
    expect(shown.page.locator("dialog")).to_contain_text("the worker was too old")
