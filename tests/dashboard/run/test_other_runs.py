"""From one run to others: the previous and the next one, retries, and a comparison."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Browser, expect

from tests.cli.programs import Up
from tests.dashboard.browser import PHONE, Visit, visit
from tests.dashboard.run.test_log_view import ended_run
from tests.dashboard.test_list import submit


def ended(site: Up, flow: str, tag: str = "default", **params: object) -> str:
    run_id = submit(site, flow, tag, **params)
    httpx.get(f"{site.url}/runs/{run_id}", params={"wait": 30})
    return run_id


def test_the_previous_and_the_next_run_of_the_flow_are_one_click_away(shown: Visit, site: Up) -> None:
    flow = f"walk-{shown.language}"
    first, second = (submit(site, flow, tag="no-worker") for _ in range(2))
    submit(site, "diamond", tag="no-worker")
    shown.open(f"/runs/{first}")
    expect(shown.button("run.previous")).to_be_disabled()
    shown.page.get_by_role("link", name=shown.word("run.next"), exact=True).click()
    shown.page.wait_for_url(re.compile(second))
    expect(shown.button("run.next")).to_be_disabled()
    # One that is submitted now becomes the next.
    third = submit(site, flow, tag="no-worker")
    shown.page.get_by_role("link", name=shown.word("run.next"), exact=True).click()
    shown.page.wait_for_url(re.compile(third))
    shown.page.go_back()
    shown.page.go_back()
    shown.page.wait_for_url(re.compile(first))
    expect(shown.page.locator("h1 a")).to_have_attribute("href", f"#/flows/{flow}")


def test_a_run_shows_what_it_was_retried_as(shown: Visit, site: Up) -> None:
    run_id = ended(site, "mended", file="/nowhere/at/all")
    shown.open(f"/runs/{run_id}")
    shown.status_is("FAILED")
    expect(shown.page.get_by_text(shown.word("run.retriedAs"), exact=True)).to_have_count(0)
    retried = httpx.post(f"{site.url}/runs/{run_id}/retry", json={"from": "failed"}).json()["run_id"]
    link = shown.page.locator(".retries a", has_text=retried[:8])
    expect(link.locator("[data-status=FAILED], .unseen")).to_contain_text(shown.word("status.FAILED"))
    link.click()
    shown.page.wait_for_url(re.compile(retried))
    back = shown.page.locator(".run-head dl > div", has_text=shown.word("run.retryOf")).locator("a")
    expect(back).to_have_text(run_id[:8])
    back.click()
    shown.page.wait_for_url(re.compile(run_id))


def test_two_runs_are_compared_by_their_parameters_durations_and_results(shown: Visit, site: Up) -> None:
    old, new = ended_run(site), ended_run(site, fail=True)
    flow = httpx.get(f"{site.url}/runs/{new}").json()["flow_name"]
    shown.open(f"/runs/{new}")
    shown.page.get_by_role("link", name=shown.word("run.compare"), exact=True).click()
    shown.page.wait_for_url(f"**#/runs/{new}/compare/{old}")
    expect(shown.page.locator("h1")).to_have_text(shown.word("compare.title", flow=flow))
    summary = shown.page.get_by_role("region", name=shown.word("compare.summary")).last
    expect(summary.locator("[data-status=FAILED]")).to_be_visible()
    expect(summary.locator("[data-status=COMPLETED]")).to_be_visible()
    failed = shown.page.locator("tr[data-task=report] td")
    expect(failed.nth(0).locator("[data-status=FAILED]")).to_be_visible()
    expect(failed.nth(1).locator("[data-status=SUCCEEDED]")).to_be_visible()
    different = shown.page.locator("tr[data-differs=true]", has_text="fail").first
    expect(different.locator("td").first).to_have_text("true")
    # Another run of the flow is chosen, and the way back leads to this one.
    third = ended_run(site, fail=True)
    shown.page.reload()
    shown.page.locator(".compare-with select").select_option(third)
    shown.page.wait_for_url(f"**/compare/{third}")
    shown.page.go_back()
    shown.page.wait_for_url(f"**/compare/{old}")
    shown.page.get_by_role("link", name=shown.word("compare.back", id=new[:8])).click()
    shown.page.wait_for_url(f"**#/runs/{new}")


def test_a_comparison_without_a_partner_is_with_the_run_before(shown: Visit, site: Up) -> None:
    """The link on the page of a run has no partner before the neighbours of the run are known."""
    flow = f"pair-{shown.language}"
    first, second = (submit(site, flow, tag="no-worker") for _ in range(2))
    shown.open(f"/runs/{second}")
    shown.open(f"/runs/{second}/compare")
    shown.page.wait_for_url(f"**#/runs/{second}/compare/{first}")
    shown.page.go_back()
    shown.page.wait_for_url(f"**#/runs/{second}")
    shown.open(f"/runs/{first}/compare")  # no earlier one: the newest other run
    shown.page.wait_for_url(f"**#/runs/{first}/compare/{second}")


def test_a_run_that_is_alone_has_nothing_to_compare_with(browser: Browser, site: Up) -> None:
    run_id = submit(site, "the-only-one-of-its-flow", tag="no-worker")
    with visit(browser, site.url, forgives=lambda text: "404" in text) as shown:
        shown.open(f"/runs/{run_id}/compare")
        shown.sees(shown.word("compare.none.title"))
        shown.open(f"/runs/{run_id}/compare/{'0' * 8}-0000-0000-0000-{'0' * 12}")
        expect(shown.page.get_by_role("alert")).to_be_visible()


def test_on_a_phone_the_log_comes_before_the_graph(browser: Browser, site: Up) -> None:
    run_id = ended_run(site, fail=True)
    with visit(browser, site.url, "en", window=PHONE) as shown:
        shown.open(f"/runs/{run_id}")
        expect(shown.page.locator(".log-lines .line").first).to_be_visible()
        log = shown.page.locator(".panels").bounding_box()
        graph = shown.page.get_by_role("region", name=shown.word("run.graph")).bounding_box()
        error = shown.page.locator(".run-error").bounding_box()
        assert log is not None
        assert graph is not None
        assert error is not None
        assert log["y"] < graph["y"]
        assert error["x"] + error["width"] <= PHONE["width"]
        shown.page.get_by_role("link", name=shown.word("run.compare"), exact=True).click()
        expect(shown.page.locator("h1")).to_be_visible()
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
