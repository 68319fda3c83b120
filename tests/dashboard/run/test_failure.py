"""A failed run shows the traceback first; events show their payload; the tab shows the state."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
from playwright.sync_api import Locator, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import Visit
from tests.dashboard.run.test_log_view import ended_run


def test_the_traceback_of_the_task_that_failed_is_first(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site, fail=True)}")
    error = shown.page.locator(".run-error")
    expect(error.locator("strong")).to_have_text(shown.word("run.failedTask", task="report"))
    expect(error.locator(".exception")).to_have_text("RuntimeError")
    expect(error.locator(".run-error-text")).to_have_text("the report has no rows")
    expect(error.locator(".traceback")).to_contain_text('raise RuntimeError("the report has no rows")')
    expect(error.locator(".traceback")).to_be_in_viewport()
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    error.get_by_role("button", name=shown.word("run.copyError")).click()
    copied = shown.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("Traceback")
    error.get_by_role("button", name=shown.word("run.showInLog")).click()
    line = shown.page.locator(".log-lines .line", has_text="task report failed")
    expect(line).to_be_in_viewport()
    expect(shown.page.get_by_label(shown.word("log.task"), exact=True).first).to_have_value("report")


def test_an_ended_run_without_a_result_does_not_promise_one(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site, fail=True)}?tab=details")
    shown.sees(shown.word("run.noResultEver"))
    expect(shown.page.get_by_text(shown.word("run.noResult"), exact=True)).to_have_count(0)


def test_an_event_expands_to_its_payload(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site, fail=True)}?tab=events")
    event = shown.page.locator(".event", has_text="NODE_FAILED")
    opener = event.locator(".event-open")
    expect(opener).to_have_attribute("aria-expanded", "false")
    opener.click()
    expect(event.locator(".json")).to_contain_text("the report has no rows")
    after = shown.page.locator(".event", has_text="EXECUTION_FAILED")
    # The list makes room when it has measured the row: a frame later than the row has grown.
    wait_for(lambda: is_below(after, event), "room for the payload")
    opener.click()
    expect(event.locator(".json")).to_have_count(0)


def is_below(lower: Locator, upper: Locator) -> bool:
    low, high = lower.bounding_box(), upper.bounding_box()
    return low is not None and high is not None and low["y"] >= high["y"] + high["height"] - 1


def test_instants_of_events_follow_their_order(in_english: Visit, site: Up) -> None:
    in_english.open(f"/runs/{ended_run(site, 'wide')}?tab=events")
    times = in_english.page.locator(".event-go .mono:nth-child(2)")
    expect(times.first).to_be_visible()
    shown = times.all_inner_texts()
    assert len(shown) > 10
    assert shown == sorted(shown)


def test_tasks_side_by_side_are_drawn_in_the_order_of_the_timeline(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site, 'wide')}")
    shown.node_is("part_00", "SUCCEEDED")
    nodes = shown.page.locator(".node").evaluate_all(
        "all => all.map((one) => [one.getBoundingClientRect().top, one.dataset.node])"
    )
    drawn = [name for _, name in sorted(nodes) if name != "total"]
    listed = shown.page.locator(".gantt-rows .gantt-name").all_inner_texts()
    assert len(drawn) > 4
    assert drawn == [name for name in listed if name in drawn]


def test_the_tab_and_the_title_show_the_state_and_the_flow(shown: Visit, site: Up, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    run_id = shown.start("diamond", json.dumps({"gate": str(gate)}))
    shown.status_is("RUNNING")
    icon = shown.page.locator("link[rel=icon]")
    expect(shown.page).to_have_title(re.compile(rf"^{shown.word('status.RUNNING')} · diamond {run_id[:8]}"))
    expect(icon).to_have_attribute("data-tone", "busy")
    gate.touch()
    expect(shown.page).to_have_title(re.compile(rf"^{shown.word('status.COMPLETED')} · "))
    expect(icon).to_have_attribute("data-tone", "good")
    shown.page.get_by_role("heading", level=1).get_by_role("link", name="diamond").click()
    shown.page.wait_for_url(re.compile("diamond"))
    expect(icon).not_to_have_attribute("data-tone", "good")


def test_run_again_begins_at_the_choice_and_offers_only_what_has_an_effect(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site)}")
    shown.button("run.again").click()
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_label(shown.word("run.againStart"))).to_be_focused()
    expect(dialog.get_by_label(shown.word("run.againStart"))).to_be_checked()
    expect(dialog.get_by_label(shown.word("run.againSame"))).to_have_count(0)
    shown.page.keyboard.press("Escape")
    shown.open(f"/runs/{ended_run(site, fail=True)}")
    shown.status_is("FAILED")
    shown.button("run.again").click()
    expect(dialog.get_by_label(shown.word("run.againSame"))).to_be_focused()


def test_a_cancel_that_was_requested_cannot_be_requested_again(shown: Visit, site: Up) -> None:
    run_id = shown.start("stubborn")
    shown.status_is("RUNNING")
    httpx.post(f"{site.url}/runs/{run_id}/cancel", json={})
    shown.status_is("CANCELLING")
    # At once: after its end no run has the button.
    assert shown.button("do.cancel").count() == 0
