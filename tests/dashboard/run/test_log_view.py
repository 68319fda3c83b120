"""The log of a run: its room, its columns, matches, levels and JSON."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.cli.programs import Up
from tests.dashboard.browser import PHONE, Visit, visit

LINE = ".log-lines .line"


def ended_run(site: Up, flow: str = "levels", **params: object) -> str:
    body = {"flow_name": flow, "params": params, "tag": "default"}
    run_id = str(httpx.post(f"{site.url}/runs", json=body).json()["run_id"])
    while not httpx.get(f"{site.url}/runs/{run_id}", params={"wait": 30}, timeout=60).json()["end_time"]:
        pass  # each request waits for the end
    return run_id


def width_of(part: Locator) -> float:
    box = part.bounding_box()
    assert box is not None
    return box["width"]


def test_the_log_gets_the_width_of_the_page_or_the_whole_window(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site)}")
    lines = shown.page.locator(".log-lines")
    shown.sees("run completed")
    beside = width_of(lines)
    shown.button("log.wide").click()
    expect(shown.button("log.wide")).to_have_attribute("aria-pressed", "true")
    assert width_of(lines) > 1.5 * beside
    shown.button("log.full").click()
    panel = shown.page.locator(".panels").bounding_box()
    window = shown.page.viewport_size
    assert panel is not None
    assert window is not None
    assert (panel["x"], panel["y"]) == (0, 0)
    assert (panel["width"], panel["height"]) == (window["width"], window["height"])
    # It has an address, and a key leaves it.
    shown.page.reload()
    expect(shown.button("log.leaveFull")).to_be_visible()
    shown.page.keyboard.press("Escape")
    expect(shown.button("log.full")).to_be_visible()
    assert width_of(lines) == pytest.approx(beside, abs=1)


def test_lines_wrap_and_columns_are_hidden_and_the_browser_stores_it(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site)}")
    long = shown.page.locator(LINE, has_text="a long line:")
    expect(long).to_be_visible()
    one_row = long.bounding_box()
    assert one_row is not None
    shown.page.get_by_label(shown.word("log.show.wrap"), exact=True).check()
    expect(shown.page.locator(".log-lines.wrap")).to_be_visible()
    wrapped = long.bounding_box()
    assert wrapped is not None
    assert wrapped["height"] > 2 * one_row["height"]
    # The line below begins where this one ends.
    below = shown.page.locator(LINE, has_text="task report succeeded").bounding_box()
    assert below is not None
    assert below["y"] == pytest.approx(wrapped["y"] + wrapped["height"], abs=1)
    shown.page.locator(".log-view").get_by_label(shown.word("log.show.time"), exact=True).uncheck()
    shown.page.locator(".log-view").get_by_label(shown.word("log.show.task"), exact=True).uncheck()
    expect(shown.page.locator(".line-time, .line-task")).to_have_count(0)
    shown.page.reload()
    expect(long).to_be_visible()
    expect(shown.page.locator(".log-lines.wrap")).to_be_visible()
    expect(shown.page.locator(".line-time, .line-task")).to_have_count(0)


def test_the_gutter_stays_when_a_long_line_is_scrolled(in_english: Visit, site: Up) -> None:
    in_english.open(f"/runs/{ended_run(site)}")
    gutter = in_english.page.locator(LINE, has_text="a long line:").locator(".line-gutter")
    before = gutter.bounding_box()
    in_english.page.locator(".log-lines").evaluate("box => { box.scrollLeft = 600 }")
    in_english.page.wait_for_function("document.querySelector('.log-lines').scrollLeft > 500")
    assert gutter.bounding_box() == before


def test_matches_are_marked_and_visited_in_both_directions(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site)}?task=report")
    shown.sees("ERROR one row was refused")
    shown.page.keyboard.press("/")
    search = shown.page.get_by_label(shown.word("log.search"))
    expect(search).to_be_focused()
    search.fill("refused")
    marks = shown.page.locator(".line-text mark")
    expect(marks).to_have_count(2)
    # A pause in typing is enough. The filter by task stays.
    hits = shown.page.locator(".log-hits")
    expect(hits).to_have_text(shown.word("log.hit", i=1, n=2))
    expect(shown.page.locator(".line.chosen")).to_contain_text("one row was refused")
    assert "task=report" in shown.page.url
    search.press("Enter")
    expect(hits).to_have_text(shown.word("log.hit", i=2, n=2))
    expect(shown.page.locator(".line.chosen")).to_contain_text("summary")
    search.press("Shift+Enter")
    expect(hits).to_have_text(shown.word("log.hit", i=1, n=2))
    shown.button("log.previous").click()
    expect(hits).to_have_text(shown.word("log.hit", i=2, n=2))


def test_lines_are_filtered_by_level(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site)}")
    shown.sees("INFO preparing")
    level = shown.page.get_by_label(shown.word("log.level"), exact=True)
    level.select_option("WARNING")
    expect(shown.page.locator(LINE)).to_have_count(2)
    level.select_option("ERROR")
    expect(shown.page.locator(LINE)).to_have_count(1)
    expect(shown.page.locator(LINE)).to_contain_text("one row was refused")
    # A match that the filter hides removes the filter.
    search = shown.page.get_by_label(shown.word("log.search"))
    search.fill("preparing")
    search.press("Enter")
    expect(shown.page.locator(".line.chosen")).to_contain_text("INFO preparing")
    expect(level).to_have_value("")


def test_json_in_a_line_is_expanded(shown: Visit, site: Up) -> None:
    shown.open(f"/runs/{ended_run(site)}")
    line = shown.page.locator(LINE, has_text="summary")
    expand = line.locator(".line-expand")
    expand.click()
    expect(expand).to_have_attribute("aria-expanded", "true")
    expect(line.locator(".line-json")).to_have_text('{\n  "rows": 42,\n  "refused": {\n    "late": 1\n  }\n}')
    upper, below = line.bounding_box(), shown.page.locator(LINE, has_text="a long line:").bounding_box()
    assert upper is not None
    assert below is not None
    assert below["y"] == pytest.approx(upper["y"] + upper["height"], abs=1)
    expand.click()
    expect(line.locator(".line-json")).to_have_count(0)


def test_only_the_chosen_line_is_a_tab_stop(in_english: Visit, site: Up) -> None:
    in_english.open(f"/runs/{ended_run(site)}")
    in_english.sees("run completed")
    stops = in_english.page.locator(".log-lines button:not([tabindex='-1'])")
    expect(stops).to_have_count(0)
    in_english.page.keyboard.press("j")
    expect(stops).to_have_count(1)
    first = in_english.page.locator(".line.chosen .line-number").inner_text()
    in_english.page.keyboard.press("j")
    expect(in_english.page.locator(".line.chosen .line-number")).to_have_text(str(int(first) + 1))
    in_english.page.keyboard.press("k")
    expect(in_english.page.locator(".line.chosen .line-number")).to_have_text(first)


def test_on_a_phone_lines_wrap_and_the_message_has_the_width(browser: Browser, site: Up) -> None:
    run_id = ended_run(site)
    with visit(browser, site.url, "ja", window=PHONE) as shown:
        shown.open(f"/runs/{run_id}")
        text = shown.page.locator(LINE, has_text="a long line:").locator(".line-text")
        expect(shown.page.locator(".log-lines.wrap")).to_be_visible()
        assert width_of(text) > PHONE["width"] / 3
        shown.page.locator(".log-view").get_by_label(shown.word("log.show.time"), exact=True).uncheck()
        shown.page.locator(".log-view").get_by_label(shown.word("log.show.task"), exact=True).uncheck()
        assert width_of(text) > PHONE["width"] * 2 / 3
