"""Runs: sorting, ranges of submissions, saved views, and retries in the list."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import httpx
from playwright.sync_api import Browser, Locator, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import PHONE, Visit, visit
from tests.dashboard.test_list import submit

NOWHERE = "no-worker-has-this"


def ids_of(shown: Visit) -> list[str]:
    return [text.strip() for text in shown.page.locator(".rows .row .id-cell").all_inner_texts()]


def field(shown: Visit, key: str) -> Locator:
    label = shown.page.get_by_text(shown.word(key), exact=True)
    return shown.page.locator(".narrow label", has=label).locator("select, input")


def submitted_at(site: Up, run_id: str) -> float:
    return float(httpx.get(f"{site.url}/runs/{run_id}").json()["submitted_at"])


def test_the_heads_of_columns_sort_and_a_changed_run_keeps_its_place(shown: Visit, site: Up) -> None:
    tag = f"sorted-{shown.language}"
    made = [submit(site, "diamond", tag=tag)[:8] for _ in range(3)]
    oldest = httpx.get(f"{site.url}/runs", params={"tag": tag, "sort": "submitted"}).json()["items"][0][
        "run_id"
    ]
    shown.open(f"/runs?tag={tag}")
    head = shown.page.locator("[role=columnheader][aria-sort]", has_text=shown.word("runs.started"))
    wait_for(lambda: ids_of(shown) == made[::-1], "the latest change first")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert "sort=-submitted" in shown.page.url
    httpx.post(f"{site.url}/runs/{oldest}/cancel")
    expect(shown.page.locator(".rows [data-status=CANCELLED]")).to_be_visible()
    assert ids_of(shown) == made[::-1]
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    wait_for(lambda: ids_of(shown) == made, "the oldest first")
    # A run that is submitted now gets its place without a reload.
    new = submit(site, "diamond", tag=tag)[:8]
    wait_for(lambda: ids_of(shown) == [*made, new], "the new run at the end")
    field(shown, "runs.sort").select_option("-submitted")
    wait_for(lambda: ids_of(shown) == [new, *made[::-1]], "the newest first")
    shown.page.go_back()


def test_runs_by_duration_are_those_that_have_one(in_english: Visit, site: Up) -> None:
    ended, waits = submit(site, "diamond"), submit(site, "diamond", tag=NOWHERE)
    httpx.get(f"{site.url}/runs/{ended}", params={"wait": 30})
    in_english.open("/runs?sort=-duration&flow=diamond")
    expect(in_english.page.locator(".rows .row", has_text=ended[:8])).to_be_visible()
    expect(in_english.page.locator(".rows .row", has_text=waits[:8])).to_have_count(0)


def test_a_range_of_submissions_is_chosen_and_stays_in_the_address(shown: Visit, site: Up) -> None:
    tag = f"range-{shown.language}"
    run_id = submit(site, "diamond", tag=tag)
    row = shown.page.locator(".rows .row", has_text=run_id[:8])
    shown.open(f"/runs?tag={tag}")
    expect(row).to_be_visible()
    field(shown, "runs.time").select_option("range")
    at = datetime.fromtimestamp(submitted_at(site, run_id) + 120, UTC)
    local = shown.page.evaluate(
        """(at) => { const date = new Date(at * 1000)
          return new Date(at * 1000 - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16) }""",
        at.timestamp(),
    )
    field(shown, "runs.time.from").fill(local)
    expect(row).to_have_count(0)
    assert f"from={at:%Y-%m-%dT%H}%3A{at:%M}Z" in shown.page.url
    expect(shown.page.get_by_text(shown.word("runs.none.title"))).to_be_visible()
    shown.page.reload()
    expect(field(shown, "runs.time.from")).to_have_value(local)
    field(shown, "runs.time").select_option("submitted hour")
    expect(row).to_be_visible()
    assert shown.page.url.endswith(f"tag={tag}&submitted=hour")


def test_a_view_is_saved_opened_changed_shared_and_removed(shown: Visit, site: Up) -> None:
    run_id = submit(site, "diamond", tag=NOWHERE)
    shown.open("/runs?status=PENDING&sort=submitted")
    row = shown.page.locator(".rows .row", has_text=run_id[:8])
    expect(row).to_be_visible()
    menu = shown.page.locator("details.views")
    menu.locator("summary").click()
    menu.get_by_label(shown.word("views.name")).fill("Stuck & old")
    menu.get_by_role("button", name=shown.word("views.save")).click()
    expect(menu.locator("summary")).to_have_text("Stuck & old")
    address = shown.page.url
    shown.page.locator("[data-count=FAILED]").click()
    expect(menu.locator("summary")).to_contain_text(shown.word("views.changed"))
    shown.open("/workers")
    shown.open("/runs")
    menu.locator("summary").click()
    menu.get_by_role("link", name="Stuck & old").click()
    expect(shown.page.locator("[data-count=PENDING]")).to_have_attribute("aria-pressed", "true")
    assert sorted(address.split("?")[1].split("&")) == sorted(shown.page.url.split("?")[1].split("&"))
    # Without the stored view, as a colleague opens the link: the same runs under the same name.
    shown.page.evaluate("localStorage.removeItem('pyoco.views')")
    shown.page.reload()
    expect(row).to_be_visible()
    expect(menu.locator("summary")).to_have_text("Stuck & old")
    menu.locator("summary").click()
    expect(menu.get_by_label(shown.word("views.name"))).to_have_value("Stuck & old")
    menu.get_by_role("button", name=shown.word("views.save")).click()
    menu.locator("summary").click()
    menu.get_by_role("button", name=shown.word("do.remove", what="Stuck & old")).click()
    expect(menu.get_by_role("link")).to_have_count(0)
    shown.page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", re.compile(""))


def test_views_are_the_same_in_two_tabs(in_english: Visit, site: Up) -> None:
    other = in_english.page.context.new_page()
    for page in (in_english.page, other):
        page.goto(f"{site.url}/#/runs?status=FAILED")
        expect(page.locator("details.views")).to_be_visible()
    menu = in_english.page.locator("details.views")
    menu.locator("summary").click()
    menu.get_by_label(in_english.word("views.name")).fill("Failures")
    menu.get_by_role("button", name=in_english.word("views.save")).click()
    other.locator("details.views summary").click()
    expect(other.locator("details.views").get_by_role("link", name="Failures")).to_be_visible()


def test_a_retry_is_marked_in_the_list(shown: Visit, site: Up) -> None:
    run_id = submit(site, "diamond", tag=NOWHERE)
    httpx.post(f"{site.url}/runs/{run_id}/cancel")
    retried = httpx.post(f"{site.url}/runs/{run_id}/retry", json={"from": "start"}).json()["run_id"]
    shown.open("/runs")
    mark = shown.page.locator(".rows .row", has_text=retried[:8]).locator(".mark")
    expect(mark).to_have_text(shown.word("runs.retry"))
    expect(mark).to_have_attribute("title", shown.word("runs.retryOf", id=run_id[:8]))
    expect(shown.page.locator(".rows .row", has_text=run_id[:8]).locator(".mark")).to_have_count(0)


def test_on_a_phone_a_run_is_a_card_and_filters_have_labels(browser: Browser, site: Up) -> None:
    failed = submit(site, "mended", file="/nowhere/at/all")
    httpx.get(f"{site.url}/runs/{failed}", params={"wait": 30})
    done = submit(site, "diamond")
    httpx.get(f"{site.url}/runs/{done}", params={"wait": 30})
    with visit(browser, site.url, "ja", window=PHONE) as shown:
        shown.open("/runs")
        shown.page.get_by_role("button", name=shown.word("runs.filters"), exact=True).click()
        for key in ("runs.flow", "runs.tag", "runs.time", "runs.sort"):
            expect(
                shown.page.locator(".narrow label", has_text=shown.word(key)).locator("span")
            ).to_be_visible()
        shown.page.get_by_role("button", name=shown.word("runs.filters"), exact=True).click()
        card = shown.page.locator(".rows .row", has_text="mended").first
        for cell in (".status", ".id-cell", ".ago-cell", ".span-cell", ".row-error"):
            expect(card.locator(cell)).to_be_visible()
        whole = shown.page.locator(".rows .row", has_text=done[:8])
        for cell in (".status", ".id-cell", ".tags-cell", ".worker-cell", ".ago-cell", ".span-cell"):
            expect(whole.locator(cell)).to_be_visible()
        boxes = [one.bounding_box() for one in whole.locator("> span").all()]
        seen = [box for box in boxes if box is not None]
        for number, one in enumerate(seen):
            for two in seen[number + 1 :]:
                apart = (
                    one["x"] + one["width"] <= two["x"]
                    or two["x"] + two["width"] <= one["x"]
                    or one["y"] + one["height"] <= two["y"]
                    or two["y"] + two["height"] <= one["y"]
                )
                assert apart, (one, two)
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
