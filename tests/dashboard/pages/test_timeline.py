"""Runs as a timeline: a row for each flow, a bar for each run, live."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit
from tests.dashboard.test_list import submit


def test_each_flow_has_its_recent_runs_as_bars(shown: Visit, site: Up, tmp_path: Path) -> None:
    tag = f"line-{shown.language}"
    failed = submit(site, "mended", file="/nowhere/at/all")
    httpx.get(f"{site.url}/runs/{failed}", params={"wait": 30})
    shown.open("/runs")
    shown.page.get_by_role("button", name=shown.word("timeline.timeline"), exact=True).click()
    assert "show=timeline" in shown.page.url
    row = shown.page.locator(".timeline-row[data-flow=mended]")
    bar = row.locator(f"a[href='#/runs/{failed}']")
    expect(bar).to_have_attribute("data-status", "FAILED")
    assert shown.word("status.FAILED") in (bar.get_attribute("title") or "")
    # A run that begins while one looks, and ends.
    gate = tmp_path / "go"
    running = submit(site, "diamond", gate=str(gate))
    moving = shown.page.locator(f".run-bar[href='#/runs/{running}']")
    expect(moving).to_have_attribute("data-status", "RUNNING")
    gate.touch()
    expect(moving).to_have_attribute("data-status", "COMPLETED")
    # The same with a filter: a run of another tag is not there.
    other = submit(site, "diamond", tag=tag)
    expect(shown.page.locator(f".run-bar[href='#/runs/{other}']")).to_have_attribute("data-status", "PENDING")
    shown.open(f"/runs?show=timeline&tag={tag}")
    expect(shown.page.locator(".timeline .track .run-bar")).to_have_count(1)
    shown.page.get_by_role("button", name=shown.word("timeline.bars.runs"), exact=True).click()
    assert "bars=runs" in shown.page.url
    expect(shown.page.locator(".track[data-grid] .run-bar")).to_have_count(1)
    shown.page.get_by_role("button", name=shown.word("timeline.window.day"), exact=True).click()
    shown.page.reload()
    expect(shown.page.locator(".track[data-grid] .run-bar")).to_have_count(1)
    expect(shown.page.get_by_role("button", name=shown.word("timeline.window.day"))).to_have_attribute(
        "aria-pressed", "true"
    )


def test_arrow_keys_go_from_bar_to_bar_and_enter_opens_the_run(in_english: Visit, site: Up) -> None:
    flow = "keyed"
    first, second = (submit(site, flow, tag="no-worker") for _ in range(2))
    in_english.open(f"/runs?show=timeline&flow={flow}")
    bars = in_english.page.locator(".track .run-bar")
    expect(bars).to_have_count(2)
    bars.last.focus()
    expect(bars.last).to_have_attribute("href", f"#/runs/{second}")
    in_english.page.keyboard.press("ArrowLeft")
    expect(bars.first).to_be_focused()
    in_english.page.keyboard.press("Enter")
    in_english.page.wait_for_url(re.compile(first))


def test_a_window_without_runs_and_a_refused_request_are_shown(in_english: Visit, site: Up) -> None:
    in_english.open("/runs?show=timeline&flow=there-is-no-such-flow")
    in_english.sees(in_english.word("timeline.none.title"))
    refusal = {"detail": "these runs cannot be listed", "message": "these runs cannot be listed"}
    in_english.page.route("**/runs?*updated_after=*", lambda route: route.fulfill(status=422, json=refusal))
    in_english.open("/runs?show=timeline&flow=diamond")
    alert = in_english.page.get_by_role("alert")
    expect(alert).to_contain_text("these runs cannot be listed")
    in_english.page.unroute("**/runs?*updated_after=*")
    run_id = submit(site, "diamond", tag="no-worker")
    alert.get_by_role("button", name=in_english.word("do.again")).click()
    expect(in_english.page.locator(f".run-bar[href='#/runs/{run_id}']")).to_be_visible()
    expect(alert).to_have_count(0)
