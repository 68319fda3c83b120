"""Rows of lists: clocks that are right at once, texts that can be read and marked, commands that work."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.cli.conftest import starter
from tests.cli.programs import Programs, Up, wait_for
from tests.dashboard.browser import Visit, visit
from tests.dashboard.test_list import submit
from tests.store.fleet.wheel_making import made

# What the pointer is over, and the text that the browser shows for it.
HOVERED = """(element) => {
  const box = element.getBoundingClientRect()
  const found = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)
  return found?.closest('[title]')?.getAttribute('title') ?? ''
}"""

# Every text that a cell with an age has shown.
NOTE_AGES = """() => {
  window.ages = []
  const note = () => {
    for (const cell of document.querySelectorAll('.ago-cell')) window.ages.push(cell.textContent)
  }
  new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true })
}"""


@pytest.fixture
def bare(browser: Browser, programs: Programs) -> Iterator[Visit]:
    """A server as `up` starts it: another port than the default, no runs, workers without wheel sync."""
    folder = programs.folder / "bare"
    up = starter(programs)("--durability", "interval", data_dir=folder)
    wait_for(lambda: httpx.get(f"{up.url}/workers").json(), "a worker")
    with visit(browser, up.url) as opened:
        yield opened
    up.program.send(signal.SIGINT)
    up.program.ended()


def test_a_page_that_was_not_looked_at_does_not_show_runs_of_the_future(in_english: Visit, site: Up) -> None:
    in_english.open("/runs")
    expect(in_english.page.locator(".live.good")).to_be_visible()
    in_english.page.evaluate(NOTE_AGES)
    in_english.open("/system")  # shows no clock
    expect(in_english.page.locator("tbody tr").first).to_be_visible()
    left_at = in_english.page.evaluate("Date.now()")
    wait_for(lambda: in_english.page.evaluate("Date.now()") > left_at + 3000, "the clock to go on")
    run_id = submit(site, "diamond")
    in_english.open("/runs")
    expect(in_english.page.locator(".rows .row", has_text=run_id[:8])).to_be_visible()
    ages = in_english.page.evaluate("window.ages")
    assert ages
    assert [age for age in ages if age.startswith("in ")] == []


def test_a_row_shows_whole_texts_on_hover_and_its_text_can_be_marked(in_english: Visit, site: Up) -> None:
    run_id = submit(site, "mended", file="/nowhere/at/all")
    httpx.get(f"{site.url}/runs/{run_id}", params={"wait": 30})
    in_english.open("/runs")
    row = in_english.page.locator(".rows .row", has_text=run_id[:8])
    expect(row.locator(".row-error")).to_be_visible()
    assert "there is no all yet" in row.locator(".row-error").evaluate(HOVERED)
    assert ":" in row.locator(".ago-cell time").evaluate(HOVERED)
    assert row.locator(".id-cell").evaluate(HOVERED) == run_id
    cell = row.locator(".id-cell").bounding_box()
    assert cell is not None
    in_english.page.mouse.move(cell["x"] + 1, cell["y"] + 10)
    in_english.page.mouse.down()
    in_english.page.mouse.move(cell["x"] + cell["width"] - 1, cell["y"] + 10)
    in_english.page.mouse.up()
    assert in_english.page.evaluate("String(getSelection())").strip() in run_id[:8]
    assert in_english.page.url.endswith("#/runs")
    in_english.page.evaluate("getSelection().removeAllRanges()")
    row.locator(".worker-cell").click()
    assert in_english.run_id == run_id


def test_commands_name_the_address_of_the_page_and_wheels_say_that_no_worker_takes_them(
    bare: Visit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for page in ("/runs", "/schedules", "/wheels"):
        bare.open(page)
        expect(bare.page.locator(".command pre").first).to_contain_text(f"pyoco-client --server {bare.url} ")
    wheel = made(tmp_path_factory.mktemp("wheel"), "taken_by_none", "1.0")
    httpx.post(f"{bare.url}/wheels", files={"wheel": (wheel.name, wheel.read_bytes())}).raise_for_status()
    expect(bare.page.locator("[data-warning=sync]")).to_contain_text(bare.word("wheels.noSync"))


def test_a_cancelled_run_is_no_failure_of_its_flow(shown: Visit, site: Up) -> None:
    flow = f"counts-{shown.language}"
    done = httpx.post(f"{site.url}/runs", json={"flow_name": "diamond"}).json()["run_id"]
    httpx.get(f"{site.url}/runs/{done}", params={"wait": 30})
    for _ in range(2):
        cancelled = submit(site, "diamond", tag=flow)
        httpx.post(f"{site.url}/runs/{cancelled}/cancel")
    [known] = [one for one in httpx.get(f"{site.url}/flows").json() if one["flow_name"] == "diamond"]
    assert known["ended"]["CANCELLED"] >= 2, json.dumps(known)
    shown.open("/flows")
    row = shown.page.locator("tr[data-flow=diamond]")
    expect(row).to_contain_text("100 %")
    expect(row).to_contain_text(shown.word("flows.ofLast", n=known["ended"]["COMPLETED"]))


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_an_answer_is_confirmed_as_what_it_was(shown: Visit, site: Up, decision: str) -> None:
    run_id = submit(site, "release", version="3.0")
    shown.open("/approvals")
    card = shown.page.locator(".approval", has_text=run_id[:8])
    shown.answer(card, decision)
    said = {"approve": "approvals.approved", "reject": "approvals.rejected"}[decision]
    expect(shown.page.locator(".toast")).to_have_text(shown.word(said, run=run_id[:8]))


def test_a_cron_field_that_is_not_valid_is_named(in_english: Visit, site: Up) -> None:
    in_english.open("/schedules?new=1&flow=diamond")
    dialog = in_english.page.locator("dialog")
    dialog.get_by_label(in_english.word("schedules.cron")).fill("61 * * * *")
    in_english.dialog_button("schedules.make").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The minute is not valid. Its values are 0 to 59")
